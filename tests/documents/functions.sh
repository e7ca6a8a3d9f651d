# What commands of the documents are made ready with.

# The sample's slices and classes, as files.
slices() {
	kubectl --kubeconfig "$NORTH" --context admin get resourceslices -o yaml >slices.yaml
	kubectl --kubeconfig "$NORTH" --context admin get deviceclasses -o yaml >classes.yaml
}

claim() {
	cat >claim.yaml <<-END
		apiVersion: resource.k8s.io/v1
		kind: ResourceClaim
		metadata: {namespace: team, name: train}
		spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
	END
}

next_year() {
	echo "$(($(date +%Y) + 1))-01-01"
}

# Of the database of a PostgreSQL that is started for it.
dump_and_restore() {
	.venv/bin/python -m tests.postgres bash -euc '
		pg_dump --format custom --file claimdesk.dump "$DATABASE_URL"
		pg_restore --clean --if-exists --dbname "$DATABASE_URL" claimdesk.dump
		echo restored'
}

make_secret() {
	kubectl --namespace claimdesk create secret generic claimdesk --dry-run=client -o yaml \
		--from-literal=DATABASE_URL=postgresql://desk --from-literal=CLAIMDESK_SECRET_KEY=long
}
