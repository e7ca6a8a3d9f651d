"""Words that stand in Latin letters on Chinese pages, too: names of kinds, of formats and of values."""

TECHNICAL = {
    # names
    *("claimdesk", "kubernetes", "kubelet", "kubeconfig", "kubectl", "kueue", "english"),
    *("karpenter", "cluster"),
    # kinds and fields of the API, which have no other name
    *("pod", "pods", "job", "secret", "namespace", "finalizer", "device", "plugin", "claim", "template"),
    # fields of what launch templates ask for
    *("default", "pattern", "choices"),
    # what browsers and formats call things
    *("cookie", "ctrl", "null"),
    # attributes and their types
    *("string", "version", "int", "bool", "type", "uid", "uuid"),
    # errors of CEL, in its own words
    *("no", "such", "key"),
}
