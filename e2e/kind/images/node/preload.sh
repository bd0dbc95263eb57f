# Runs in a container of the node image: reads images as `docker save` writes them, and puts them where containerd of
# the node will find them.
set -eu
containerd > /tmp/containerd.log 2>&1 &
containerd=$!
until ctr version > /dev/null 2>&1; do
  kill -0 "$containerd" || { cat /tmp/containerd.log >&2; exit 1; }
  sleep 0.2
done
ctr --namespace=k8s.io images import --label=io.cri-containerd.pinned=pinned --all-platforms --no-unpack --digests -
kill "$containerd"
wait "$containerd" || true
rm /tmp/containerd.log
