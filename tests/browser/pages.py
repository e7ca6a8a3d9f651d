"""The list of all pages, for tests that visit every one of them.

Every URL pattern of the portal is either in PAGES or in NOT_PAGES (`test_pages` fails otherwise), so that
a new page is looked at before it can be reached. Addresses name things of `tests.browser.world`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests.browser.world import World

ROLES = ("member", "lead", "stranger", "finance", "administrator", "auditor", "anonymous")

EVERYBODY = ROLES[:-1]
# Finance came here through an identity provider.
WITH_PASSWORD = tuple(role for role in EVERYBODY if role != "finance")
PROJECT = ("member", "lead", "administrator", "auditor")
LEADS = ("lead", "administrator")
READERS = ("administrator", "auditor")
ACCOUNTS = ("finance", "administrator", "auditor")
KEEPERS = ("finance", "administrator")
# Who knows what a project costs.
KNOWN = ("member", "lead", "finance", "administrator", "auditor")
ADMINISTRATORS = ("administrator",)


@dataclass(frozen=True)
class Page:
    """A page at a URL pattern: which thing each argument names, who sees it, and what is asked for.

    A page that `follows` is a redirect to what is looked at."""

    route: str
    roles: tuple[str, ...] = EVERYBODY
    arguments: tuple[tuple[str, str], ...] = ()
    query: str = ""
    variant: str = ""
    status: int = 200
    follows: bool = False

    @property
    def name(self) -> str:
        """What its screenshots are called."""
        return f"{self.route}-{self.variant}" if self.variant else self.route

    def path(self, world: World) -> str:
        """Its address in a world."""
        arguments = {key: world.things.get(value, value) for key, value in self.arguments}
        return reverse(self.route, kwargs=arguments) + (f"?{self.query}" if self.query else "")


def at(route: str, *roles: str, query: str = "", variant: str = "", **arguments: str) -> Page:
    """A page; without roles everybody who has signed in sees it."""
    return Page(route, roles or EVERYBODY, tuple(arguments.items()), query, variant)


_cluster = {"cluster": "berlin"}

PAGES: tuple[Page, ...] = (
    # --- portal/pages
    at("home"),
    at("search", query="q=gpu"),
    at("search", query="q=nothing-is-called-so", variant="empty"),
    at("device-detail", pk="held"),
    at("device-detail", pk="ill", variant="tainted"),
    at("device-detail", pk="whole", variant="partitioned"),
    at("pod-detail", *PROJECT, **_cluster, namespace="tides", name="harmonics-worker-0"),
    at("claim-detail", *PROJECT, **_cluster, namespace="tides", name="harmonics"),
    at("workload-detail", *PROJECT, **_cluster, namespace="tides", kind="Job", name="sweep"),
    at("namespace-detail", *PROJECT, **_cluster, name="tides"),
    at("chart-occupancy"),
    at("chart-waiting"),
    at("chart-cost"),
    at("project-list"),
    at("project-create", *ADMINISTRATORS),
    at("project-detail", *PROJECT, slug="tides"),
    at("project-edit", *ADMINISTRATORS, slug="tides"),
    at("project-archive", *ADMINISTRATORS, slug="tides"),
    at("api-docs"),
    at("project-leave", "member", slug="tides"),
    at("member-remove", *LEADS, slug="tides", pk="membership"),
    at("binding-end", *ADMINISTRATORS, slug="tides", pk="binding"),
    # --- portal/accounts
    at("account_login", "anonymous"),
    at("account_logout"),
    at("account_inactive", "anonymous"),
    at("account_signup", "anonymous"),
    at("account_change_password"),
    at("account_reauthenticate", *WITH_PASSWORD),
    at("account_set_password", "finance", variant="of-provider"),
    at("reauthentication-impossible", "finance"),
    at("account_email"),
    at("mfa_index"),
    at("mfa_index", "lead", variant="on"),
    at("mfa_activate_totp", "member", "stranger", "administrator"),
    at("mfa_deactivate_totp", "lead"),
    at("mfa_generate_recovery_codes", "lead"),
    at("mfa_view_recovery_codes", "lead"),
    at("mfa_list_webauthn"),
    at("mfa_add_webauthn", *WITH_PASSWORD),
    at("mfa_reauthenticate", "lead"),
    at("account_reset_password", "anonymous"),
    at("account_reset_password_done", "anonymous"),
    at("account_reset_password_from_key_done", "anonymous"),
    at("account_email_verification_sent", "anonymous"),
    Page("invitation-open", ("anonymous",), (("secret", "invitation"),), follows=True),
    at("invitation-list", *LEADS, slug="tides"),
    at("import-people", *ADMINISTRATORS),
    at("person-list", *READERS),
    at("person-detail", *READERS, pk="person"),
    at("person-switch", *ADMINISTRATORS, pk="person"),
    at("person-reset-factor", *ADMINISTRATORS, pk="person"),
    at("profile"),
    at("notification-list", "member", "lead"),
    at("notification-list", "stranger", variant="empty"),
    at("notification-choices"),
    at("webhook-list", "member", "administrator"),
    at("watch-create", query="flavor=h100"),
    at("device-ask", pk="held"),
    at("message-thread", "member", "lead", "stranger", key="message"),
    at("project-webhook-list", *LEADS, slug="tides"),
    at("webhook-detail", *LEADS, key="hook"),
    at("webhook-delete", *LEADS, key="hook"),
    at("webhook-secret", *LEADS, key="hook"),
    at("token-list", "administrator"),
    at("token-list", "stranger", variant="empty"),
    at("token-revoke", "member", key="own-token"),
    at("announcement-list", *READERS),
    at("announcement-create", *ADMINISTRATORS),
    at("announcement-edit", *ADMINISTRATORS, pk="announcement"),
    at("token-overview", *READERS),
    at("audit-detail", *READERS, pk="entry"),
    at("audit-list", *READERS),
    at("audit-list", *READERS, query="q=nobody", variant="empty"),
    # --- inventory
    at("device-list"),
    at("device-list", query="q=nothing-is-called-so", variant="empty"),
    at("pool-list"),
    at("pool-detail", **_cluster, driver="gpu.nvidia.com", name="mig-01"),
    at("node-list"),
    at("node-detail", **_cluster, name="gpu-01"),
    at("node-detail", **_cluster, name="old-00", variant="counted"),
    at("cdi-list"),
    at("cdi-detail", **_cluster, name="gpu-01"),
    at("cdi-token", *ADMINISTRATORS),
    at("cdi-token-revoke", *ADMINISTRATORS, pk="cdi-token"),
    at("cluster-pod-devices", *READERS, name="berlin"),
    at("cluster-pod-devices", *READERS, name="lakeside", variant="empty"),
    at("cluster-pod-device-token", *ADMINISTRATORS, name="berlin"),
    at("cluster-pod-device-token-revoke", *ADMINISTRATORS, name="berlin", pk="pod-device-token"),
    at("queue-list"),
    at("cluster-list"),
    at("cluster-add", *ADMINISTRATORS),
    at("cluster-detail", name="berlin"),
    at("cluster-detail", name="lakeside", variant="unreachable"),
    at("class-list"),
    at("class-create", *ADMINISTRATORS),
    at("class-import", *ADMINISTRATORS),
    at("class-names", *READERS),
    at("class-across", *READERS, name="gpu.nvidia.com"),
    at("class-detail", **_cluster, name="gpu.nvidia.com"),
    at("class-detail", **_cluster, name="broken.example.org", variant="broken"),
    at("class-edit", *ADMINISTRATORS, **_cluster, name="gpu.nvidia.com"),
    at("class-versions", *READERS, **_cluster, name="gpu.amd.com"),
    at("class-restore", *ADMINISTRATORS, **_cluster, name="gpu.amd.com", version="class-version"),
    at("class-detail", **_cluster, name="gpu.amd.com", variant="drifted"),
    at("class-delete", *ADMINISTRATORS, **_cluster, name="gpu.nvidia.com"),
    at("class-propose", *ADMINISTRATORS, query="class=gpu.amd.com&cluster=berlin"),
    at("class-proposal-list", *READERS),
    at("class-proposal-detail", *READERS, pk="proposal"),
    at("class-proposal-detail", *READERS, pk="stopped-proposal", variant="stopped"),
    at("class-proposal-detail", *READERS, pk="outdated-proposal", variant="outdated"),
    at("taint-list"),
    at("taint-list", query="q=nothing-is-called-so", variant="empty"),
    at("taint-rule-create", *ADMINISTRATORS),
    at("taint-rule-detail", *READERS, **_cluster, name="fans-0"),
    at("taint-rule-edit", *ADMINISTRATORS, **_cluster, name="fans-0"),
    at("taint-rule-delete", *ADMINISTRATORS, **_cluster, name="fans-0"),
    at("maintenance-list"),
    at("maintenance-create", *ADMINISTRATORS),
    at("maintenance-detail", key="maintenance"),
    at("maintenance-edit", *ADMINISTRATORS, key="maintenance"),
    at("maintenance-cancel", *ADMINISTRATORS, key="maintenance"),
    at("drain-list", *READERS),
    at("drain-create", *ADMINISTRATORS),
    at("drain-detail", *READERS, key="drain"),
    at("drain-detail", "member", "lead", key="drain", variant="holder"),
    at("drain-evict", *ADMINISTRATORS, key="drain"),
    at("drain-finish", *ADMINISTRATORS, key="drain"),
    at("finding-list", *READERS),
    at("finding-list", *READERS, query="state=resolved", variant="empty"),
    at("finding-checks", *READERS),
    at("finding-detail", *READERS, pk="finding"),
    at("finding-task-list", *READERS),
    at("finding-task", *READERS, pk="task"),
    at("contract-list", *READERS),
    at("contract-detail", *READERS, name="berlin"),
    at("contract-edit", *ADMINISTRATORS, name="berlin"),
    at("monitoring-detail", *READERS, name="berlin"),
    at("monitoring-detail", *READERS, variant="none", name="lakeside"),
    at("monitoring-edit", *ADMINISTRATORS, name="berlin"),
    at("monitoring-remove", *ADMINISTRATORS, name="berlin"),
    at("monitoring-query-create", *ADMINISTRATORS, name="berlin"),
    at("monitoring-query-edit", *ADMINISTRATORS, name="berlin", pk="metric-query"),
    at("monitoring-query-remove", *ADMINISTRATORS, name="berlin", pk="metric-query"),
    # --- claims
    at("catalogue"),
    at("flavor-detail", slug="h100"),
    at("flavor-list", *READERS),
    at("flavor-create", *ADMINISTRATORS),
    at("migration-list", *READERS),
    at("migration-create", *ADMINISTRATORS),
    at("migration-detail", *READERS, pk="plan"),
    at("migration-print", *READERS, pk="plan"),
    at("migration-edit", *ADMINISTRATORS, pk="plan"),
    at("migration-remove", *ADMINISTRATORS, pk="plan"),
    at("migration-stage", *ADMINISTRATORS, pk="plan"),
    at("migration-switch", *ADMINISTRATORS, pk="plan"),
    at("migration-sign", *ADMINISTRATORS, pk="plan", item="way-back"),
    at("cluster-readiness", *READERS, name="berlin"),
    at("cluster-readiness-sign", *ADMINISTRATORS, name="berlin", point="drivers"),
    at("drill-create", *ADMINISTRATORS, pk="plan"),
    at("drill-detail", *READERS, key="drill"),
    at("drill-print", *READERS, key="drill"),
    at("growable-pool-list", *READERS),
    at("growable-pool-create", *ADMINISTRATORS),
    at("growable-pool-edit", *ADMINISTRATORS, pk="pool"),
    at("growable-pool-remove", *ADMINISTRATORS, pk="pool"),
    at("flavor-derive", *ADMINISTRATORS),
    at("flavor-edit", *ADMINISTRATORS, slug="h100"),
    at("placement-create", *ADMINISTRATORS, slug="h100"),
    at("placement-edit", *ADMINISTRATORS, slug="h100", pk="placement"),
    at("placement-remove", *ADMINISTRATORS, slug="h100", pk="placement"),
    at("approval-list", "lead", "administrator", "auditor"),
    at("request-list"),
    at("request-create", "member", "lead", "administrator"),
    at("request-detail", *PROJECT, key="request-in-use"),
    at("request-detail", *PROJECT, key="request-waiting-for-device", variant="waiting"),
    at("request-detail", *PROJECT, key="request-failed", variant="failed"),
    at("request-detail", *PROJECT, key="request-waiting-for-approval", variant="to-approve"),
    at("booking-calendar", slug="h100"),
    at("booking-calendar", slug="h100", query="view=month", variant="month"),
    at("booking-list"),
    at("booking-create", "member", "lead", "administrator", query="flavor=h100"),
    at("booking-detail", *PROJECT, key="booking"),
    at("booking-detail", *PROJECT, key="booking-waiting", variant="waiting"),
    at("booking-detail", *PROJECT, key="booking-missed", variant="missed"),
    at("booking-cancel", "member", "lead", "administrator", key="booking"),
    at("request-manifests", *PROJECT, key="request-in-use"),
    at("launch-template-list"),
    at("launch-template-create", *ADMINISTRATORS),
    at("launch-template-edit", *ADMINISTRATORS, slug="train"),
    at("request-launches", *PROJECT, key="request-in-use"),
    at("request-launch", "member", "lead", "administrator", key="request-in-use", slug="train"),
    at("request-launch-stop", "member", "lead", "administrator", key="request-in-use", launch="launch"),
    at("draft-list"),
    at("draft-delete", "member", key="draft"),
    at("saved-list"),
    at("saved-edit", "member", "lead", "administrator", key="saved"),
    at("saved-delete", "member", "lead", "administrator", key="saved"),
    at("request-release", "member", "lead", "administrator", key="request-in-use"),
    at("request-change", "member", "lead", "administrator", key="request-in-use", query="min_memory="),
    at("request-cancel", "member", "administrator", key="request-submitted"),
    at("quota-list"),
    at("quota-create", *ADMINISTRATORS),
    at("quota-detail", *PROJECT, "finance", key="quota"),
    at("quota-detail", *PROJECT, "finance", key="quota-over", variant="over"),
    at("quota-edit", *ADMINISTRATORS, key="quota"),
    at("quota-end", *ADMINISTRATORS, key="quota"),
    at("history"),
    at("history", query="kind=units&running=1", variant="units"),
    at("history-ledger", *READERS),
    at("ledger-policy", *READERS),
    at("cost"),
    at("cost", query="from=2001-01-01&to=2001-01-31", variant="empty"),
    at("statement-list", query="month=2026-01"),
    at("statement-hooks", *KEEPERS),
    at("statement-detail", *KNOWN, month="2026-01", slug="tides"),
    at("statement-detail", *KNOWN, month="2026-01", slug="tides", query="print=1", variant="print"),
    at("statement-nobody", *ACCOUNTS, month="2026-01"),
    at("focus", query="period=2026-01"),
    at("focus", query="period=2026-13&through=x", variant="wrong"),
    at("statement-move", *KEEPERS, month="2026-01", slug="tides"),
    at("statement-nobody-move", *KEEPERS, month="2026-01"),
    at("statement-move-all", *KEEPERS, month="2026-01", action="close"),
    at("reconciliation", *ACCOUNTS, month="2026-01"),
    at("charge-list", *KNOWN, month="2026-01", slug="tides"),
    at("charge-detail", *KNOWN, pk="charge"),
    at("dispute-create", *LEADS, pk="charge"),
    at("dispute-list"),
    at("dispute-detail", *KNOWN, pk="dispute"),
    at("adjustment-create", *KEEPERS, slug="tides"),
    at("budget", *KNOWN, slug="tides"),
    at("cost-centres", *KNOWN, slug="tides"),
    at("price-book-list", *ACCOUNTS),
    at("price-book-detail", *ACCOUNTS, pk="price-book"),
    at("price-draft-edit", *ADMINISTRATORS, pk="price-draft"),
    at("price-draft-publish", *ADMINISTRATORS, pk="price-draft"),
)

# Pages that tell an error: their address in `tests.browser.urls`, the status, and what pictures are called.
FAULTS: tuple[tuple[str, int, str], ...] = (
    ("/fail/400/", 400, "error-bad-request"),
    ("/fail/403/", 403, "error-forbidden"),
    ("/fail/csrf/", 403, "error-expired-form"),
    ("/no/such/page/", 404, "error-not-found"),
    ("/fail/413/", 413, "error-too-large"),
    ("/fail/429/", 429, "error-too-many"),
    ("/fail/500/", 500, "error-broken"),
    ("/fail/503/", 503, "error-database-away"),
)

# Pages with a form that says what is wrong when it is sent empty.
REFUSING = (
    "request-create",
    "booking-create",
    "class-create",
    "cluster-add",
    "project-create",
    "token-list",
    "cdi-token",
    "account_change_password",
    "account_reauthenticate",
)

# Pages that are there before anything else is.
BARE = (
    *("home", "search", "project-list", "device-list", "node-list", "cdi-list", "queue-list", "cluster-list"),
    *(
        "pool-list",
        "catalogue",
        "flavor-list",
        "saved-list",
        "launch-template-list",
        "quota-list",
        "growable-pool-list",
        "migration-list",
        "person-list",
        "chart-occupancy",
        "chart-waiting",
        "chart-cost",
    ),
    *(
        "class-list",
        "class-create",
        "class-proposal-list",
        "finding-list",
        "finding-checks",
        "finding-task-list",
        "contract-list",
    ),
    *(
        "request-list",
        "request-create",
        "booking-list",
        "booking-create",
        "history",
        "cost",
        "chart-cost",
        "audit-list",
        "token-list",
    ),
)

# Other patterns by what they are: "post" answers no GET, "file" is downloaded, "part" is put into a page.
NOT_PAGES: dict[str, str] = {
    "set_language": "post",
    "adjustment-decide": "post",
    "idle-pass-on": "post",
    "statement-export": "file",
    "statement-nobody-export": "file",
    "focus-file": "file",
    "price-draft-create": "post",
    "price-draft-discard": "post",
    "announcement-end": "post",
    "notification-read": "post",
    "notification-open": "post",
    "webhook-test": "post",
    "watch-cancel": "post",
    "message-mute": "post",
    "mute-end": "post",
    "webhook-retry": "post",
    "webhook-switch": "post",
    "announcement-dismiss": "post",
    "member-add": "post",
    "member-role": "post",
    "binding-add": "post",
    "invitation-revoke": "post",
    "quota-object-restore": "post",
    "flavor-archive": "post",
    "flavor-move": "post",
    "placement-switch": "post",
    "class-adopt": "post",
    **{
        f"class-proposal-{verb}": "post"
        for verb in (
            *("approve", "reject", "withdraw", "comment", "redraw", "resume", "give-up", "roll-back"),
        )
    },
    "taint-leftovers": "post",
    "drain-ask": "post",
    "drain-close": "post",
    "drain-hand-over": "post",
    "drain-answer": "post",
    "cluster-check": "post",
    "cluster-switch": "post",
    "cluster-sync": "post",
    "finding-handle": "post",
    "request-approve": "post",
    "booking-approve": "post",
    "project-restore": "post",
    "booking-reject": "post",
    "request-reject": "post",
    "request-hold": "post",
    "saved-create": "post",
    "draft-keep": "post",
    "launch-template-archive": "post",
    "request-retry": "post",
    "request-offer": "post",
    "change-approve": "post",
    "change-reject": "post",
    "change-accept": "post",
    "change-withdraw": "post",
    # What leads elsewhere, or is only there for who came from elsewhere.
    "oidc-login": "step",
    "oidc-callback": "step",
    "oidc-disconnect": "step",
    "invitation-accept": "step",
    "mfa_authenticate": "step",
    "mfa_reauthenticate_webauthn": "step",
    "mfa_edit_webauthn": "step",
    "mfa_remove_webauthn": "step",
    "account_reset_password_from_key": "step",
    "account_confirm_email": "step",
    "mfa_download_recovery_codes": "file",
    "chart-timeline": "file",
    "device-expression": "part",
    "expression-check": "part",
    "class-attributes": "part",
    "class-effect": "part",
    "request-preview": "part",
    "request-file": "part",
    "booking-check": "part",
    "device-export": "file",
    "finding-export": "file",
    "audit-export": "file",
    "history-export": "file",
    "history-ledger-check": "post",
    "cost-export": "file",
    "migration-export": "part",
    "drill-export": "part",
    "drill-answer": "post",
    "drill-cancel": "post",
    "api-schema": "file",
}


def route_names() -> Iterator[str]:
    """The names of all URL patterns but those of REST under /api/v…"""

    def walk(resolver: URLResolver, prefix: str) -> Iterator[str]:
        for pattern in resolver.url_patterns:
            whole = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern, whole)
            elif isinstance(pattern, URLPattern) and not whole.startswith("api/v"):
                yield pattern.name or whole

    return walk(get_resolver("portal.urls"), "")
