#!/bin/sh
# Adds Muster's job controller, which runs Volcano's Jobs and CronJobs whose schedulerName is muster, to an installed
# Muster. The definitions of Job, CronJob and Command are created where there are none and never changed where they
# are, Volcano's least of all. Safe to repeat. While Volcano's own controller runs, ours leaves all Jobs to it.
#
# Taking it away again is `kubectl delete -k manifests/jobs`, which leaves the definitions: to delete one deletes all
# its objects, and with them their pods.
set -eu

case ${1:-} in
"") ;;
-h | --help) echo "usage: manifests/jobs/install.sh   (KUBECTL names the kubectl to use, default: kubectl)"; exit 0 ;;
*) echo "unknown argument: $1" >&2; exit 2 ;;
esac

KUBECTL=${KUBECTL:-kubectl}
HERE=$(dirname "$0")

for file in "$HERE"/crds/*.yaml; do
    name=$("$KUBECTL" create --dry-run=client --filename "$file" --output 'jsonpath={.metadata.name}')
    if "$KUBECTL" get customresourcedefinition "$name" >/dev/null 2>&1; then
        echo "$name is there already, and stays as it is"
    else
        "$KUBECTL" create --filename "$file"
    fi
    "$KUBECTL" wait --for=condition=Established "customresourcedefinition/$name" --timeout=60s
done
"$KUBECTL" kustomize "$HERE" | "$KUBECTL" apply --server-side --force-conflicts -f -
