#!/bin/sh
# Adds the live answers to an installed Muster: a Secret with the certificate, the Service and rights, and last, once
# the server answers, the APIService. Safe to repeat; a repetition with other files renews the certificate.
#
# It is not part of the default installation. While an API that is registered does not answer, that is while no
# replica of Muster runs, the API server cannot list all that it serves, and finishes no deletion of a namespace.
# Nobody should have that risk without having asked for it. To take it back:
#   kubectl delete apiservice v1alpha1.visibility.muster.dev
set -eu

NAMESPACE=muster-system
NAME=muster-answers.$NAMESPACE.svc

usage() {
    cat <<TEXT
usage: manifests/answers/install.sh CERTIFICATE KEY [AUTHORITY]
  files in PEM; the certificate is for the name $NAME, and AUTHORITY is who signed it, when it is not itself.
  One that signed itself, for ten years, is made so:
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=$NAME \\
      -addext subjectAltName=DNS:$NAME -keyout answers.key -out answers.crt
KUBECTL names the kubectl to use (default: kubectl), WAIT_SECONDS how long to wait for the server (default: 180).
TEXT
}

case ${1:-} in -h | --help) usage; exit 0 ;; esac
if [ $# -lt 2 ] || [ $# -gt 3 ]; then usage >&2; exit 2; fi
certificate=$1 key=$2 authority=${3:-$1}
for file in "$certificate" "$key" "$authority"; do
    if ! [ -r "$file" ]; then echo "there is no file $file that can be read" >&2; exit 2; fi
done

KUBECTL=${KUBECTL:-kubectl}
HERE=$(dirname "$0")
apply() { "$KUBECTL" apply --server-side --force-conflicts -f -; }

"$KUBECTL" create secret tls muster-answers-tls --namespace "$NAMESPACE" --cert "$certificate" --key "$key" \
    --dry-run=client --output yaml |
    "$KUBECTL" label --local --filename - app.kubernetes.io/part-of=muster --output yaml | apply
"$KUBECTL" kustomize "$HERE" | apply

# The kubelet brings the Secret to the pods within about a minute. An APIService before that would be one without a
# server, with the consequence that is told above.
echo "waiting until the server answers"
left=${WAIT_SECONDS:-180}
until "$KUBECTL" get --raw "/api/v1/namespaces/$NAMESPACE/services/https:muster-answers:443/proxy/healthz" 2>/dev/null |
    grep -qx ok; do
    left=$((left - 1))
    if [ "$left" -le 0 ]; then
        echo "the server does not answer, so the API is not registered; see the log of the extender, and whether the" \
            "API server can reach port 8443 of its pods; then repeat" >&2
        exit 1
    fi
    sleep 1
done
sed "s|CA_BUNDLE|$(base64 <"$authority" | tr -d '\n')|" "$HERE/apiservice.yaml" | apply
"$KUBECTL" wait --for=condition=Available --timeout=60s apiservice/v1alpha1.visibility.muster.dev
