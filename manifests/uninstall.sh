#!/bin/sh
# Takes Muster out of the cluster of the current kubectl context, in the order that harms nobody:
# the policies first, so that no new pod is gated; then a list of the pods that still wait, by owner, with what to do;
# then the API of live answers, which must not outlive its server; then the scheduler and its rights. The definitions
# of Queue, PodGroup and Topology go only with --purge, because every object of theirs goes with them. Running pods are
# not touched. Safe to repeat, also after an interruption.
set -eu

usage() {
    cat <<'TEXT'
usage: manifests/uninstall.sh [--dry-run] [--ungate] [--purge]
  --dry-run  say what would be done, change nothing
  --ungate   remove Muster's scheduling gate from the pods that still wait (they then wait for a scheduler
             of the name muster, such as a stock kube-scheduler with a profile of that name)
  --purge    also delete all Queues, PodGroups and Topologies of muster.dev and their definitions
KUBECTL names the kubectl to use (default: kubectl).
TEXT
}

KUBECTL=${KUBECTL:-kubectl}
dry_run=false ungate=false purge=false
for argument in "$@"; do
    case $argument in
    --dry-run) dry_run=true ;;
    --ungate) ungate=true ;;
    --purge) purge=true ;;
    -h | --help) usage; exit 0 ;;
    *) echo "unknown argument: $argument" >&2; usage >&2; exit 2 ;;
    esac
done

OURS=app.kubernetes.io/part-of=muster
NAMESPACE=muster-system
GATE=muster.dev/queue

say() { printf '%s\n' "$*"; }

# Every change of the cluster goes through here.
change() {
    if $dry_run; then "$KUBECTL" "$@" --dry-run=server; else "$KUBECTL" "$@"; fi
}

# The kinds of this pattern that are served, as one argument of kubectl; older clusters lack the mutating ones.
policy_kinds() {
    "$KUBECTL" api-resources --api-group=admissionregistration.k8s.io -o name | grep -E "$1" | paste -sd, -
}

remove_policies() {
    say "1. policies: from now on no new pod is gated or given our schedulerName"
    change delete "$(policy_kinds 'policybindings')" -l "$OURS" --ignore-not-found
    change delete "$(policy_kinds 'admissionpolicies')" -l "$OURS" --ignore-not-found
    managed=$("$KUBECTL" get namespaces -l muster.dev/managed -o jsonpath='{range .items[*]} {.metadata.name}{end}')
    if [ -n "$managed" ]; then say "   these namespaces keep the label muster.dev/managed, which does nothing any more:$managed"; fi
}

# One line a waiting pod: namespace, name, owner (kind/name or -), names of its gates (g1,g2, or -)
waiting_pods() {
    "$KUBECTL" get pods --all-namespaces --field-selector spec.schedulerName=muster,status.phase=Pending,spec.nodeName= \
        -o go-template='{{range .items}}{{.metadata.namespace}} {{.metadata.name}} {{$owner := "-"}}{{range .metadata.ownerReferences}}{{if .controller}}{{$owner = printf "%s/%s" .kind .name}}{{end}}{{end}}{{$owner}} {{range .spec.schedulingGates}}{{.name}},{{else}}-{{end}}{{"\n"}}{{end}}'
}

list_waiting() {
    say "2. pods with schedulerName muster that still wait:"
    waiting=$(waiting_pods)
    if [ -z "$waiting" ]; then say "   none"; return; fi
    say "$waiting" | awk -v gate="$GATE," '
        { owner = ($3 == "-") ? "-" : $3
          name = (owner == "-") ? $2 : owner
          key = $1 SUBSEP name SUBSEP owner
          count[key]++
          if (index("," $4, "," gate)) gated[key]++ }
        END {
          for (key in count) {
            split(key, part, SUBSEP)
            if (part[3] == "-") todo = "Has no owner: create it anew with another schedulerName, then delete it."
            else if (part[3] ~ /^Job\//) todo = "Create the Job anew with another schedulerName: its template is fixed."
            else todo = "Set another schedulerName in its pod template, or in what made it, then delete these pods: they are made anew."
            printf "   %s %s: %d waiting, %d of them gated. %s\n", part[1], (part[3] == "-") ? "Pod/" part[2] : part[2], count[key], gated[key], todo
          }
        }' | sort
}

remove_gates() {
    say "   removing the gate $GATE from them"
    say "$waiting" | while read -r namespace name _ gates; do
        index=$(printf '%s' "$gates" | tr ',' '\n' | grep -nx "$GATE" | cut -d: -f1) || true
        if [ -z "$index" ]; then continue; fi
        at="/spec/schedulingGates/$((index - 1))"
        # `test` first: should the list have changed meanwhile, nothing is removed
        change patch pod "$name" --namespace "$namespace" --type=json \
            --patch="[{\"op\":\"test\",\"path\":\"$at/name\",\"value\":\"$GATE\"},{\"op\":\"remove\",\"path\":\"$at\"}]" \
            </dev/null || say "   $namespace/$name: not changed; run this command again"
    done
}

remove_scheduler() {
    say "3. the API of live answers, the scheduler, then its rights and its namespace"
    # first: no namespace, ours neither, can be deleted while a registered API does not answer
    change delete apiservices.apiregistration.k8s.io -l "$OURS" --ignore-not-found
    if "$KUBECTL" get namespace "$NAMESPACE" >/dev/null 2>&1; then
        # in the foreground: its pods end what they have begun before they lose their rights
        change delete deployments.apps -n "$NAMESPACE" -l "$OURS" --ignore-not-found --cascade=foreground --timeout=90s ||
            say "   the scheduler's pods are still ending; going on"
    fi
    change delete flowschemas.flowcontrol.apiserver.k8s.io,clusterrolebindings.rbac.authorization.k8s.io,clusterroles.rbac.authorization.k8s.io \
        -l "$OURS" --ignore-not-found
    change delete rolebindings.rbac.authorization.k8s.io -n kube-system -l "$OURS" --ignore-not-found
    change delete namespace "$NAMESPACE" --ignore-not-found --timeout=90s ||
        say "   namespace $NAMESPACE is still ending; going on"
}

keep_definitions() {
    for name in jobs.batch.volcano.sh cronjobs.batch.volcano.sh; do
        objects=$("$KUBECTL" get "$name" --all-namespaces -o name 2>/dev/null | wc -l)
        if [ "$((objects))" -gt 0 ]; then
            say "   $name stays in any case: to delete it would delete its $((objects)) objects and their pods"
        fi
    done
}

remove_definitions() {
    say "4. definitions of muster.dev, with their objects"
    definitions=$("$KUBECTL" get customresourcedefinitions.apiextensions.k8s.io -l "$OURS" \
        -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}')
    if [ -z "$definitions" ]; then say "   none"; return; fi
    for name in $definitions; do
        objects=$("$KUBECTL" get "$name" --all-namespaces -o name | wc -l)
        say "   $name: $((objects)) objects"
    done
    if $purge; then
        change delete customresourcedefinitions.apiextensions.k8s.io -l "$OURS" --ignore-not-found
    else
        say "   kept; to delete them and all these objects: $0 --purge"
    fi
}

# nothing below may mistake an unreachable cluster for one without Muster
"$KUBECTL" get --raw /readyz >/dev/null
remove_policies
list_waiting
if $ungate && [ -n "$waiting" ]; then remove_gates; fi
remove_scheduler
remove_definitions
keep_definitions
