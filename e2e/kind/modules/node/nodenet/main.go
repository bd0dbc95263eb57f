// nodenet joins the pods of a kind cluster: on each node it writes the CNI configuration of that node's range of pod
// addresses, and keeps a route to the range of every other node. NODE_NAME says on which node it runs.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	configuration = "/etc/cni/net.d/10-nodenet.conflist"
	every         = 2 * time.Second
	format        = `{"cniVersion": "0.4.0", "name": "nodenet", "plugins": [
  {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state",
    "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "%s"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`
)

func main() {
	access, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(access)
	for ; ; time.Sleep(every) {
		nodes, err := client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			log.Print("cannot list the nodes: ", err)
			continue
		}
		for i := range nodes.Items {
			if err := join(&nodes.Items[i]); err != nil {
				log.Printf("node %s: %v", nodes.Items[i].Name, err)
			}
		}
	}
}

func join(node *corev1.Node) error {
	switch {
	case node.Spec.PodCIDR == "":
		return nil
	case node.Name == os.Getenv("NODE_NAME"):
		return configure(node.Spec.PodCIDR)
	default:
		return route(node)
	}
}

// configure writes the file in one step: the container runtime reads it at any moment.
func configure(podRange string) error {
	wanted := fmt.Sprintf(format, podRange)
	if text, err := os.ReadFile(configuration); err == nil && string(text) == wanted {
		return nil
	}
	temporary := filepath.Join(filepath.Dir(configuration), ".nodenet")
	if err := os.WriteFile(temporary, []byte(wanted), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, configuration)
}

func route(node *corev1.Node) error {
	_, destination, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return err
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return netlink.RouteReplace(&netlink.Route{Dst: destination, Gw: net.ParseIP(address.Address)})
		}
	}
	return nil
}
