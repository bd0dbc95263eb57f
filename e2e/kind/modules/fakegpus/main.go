// fakegpus offers GPUs that do not exist to the kubelet, over its device plugin socket: for tests. It tells their
// health, prefers those that are joined best, and gives a container the ids that it got as NVIDIA_VISIBLE_DEVICES.
//
// A file /var/run/fakegpus/unhealthy, when there is one, lists the ids that are broken, by white space; while there is a
// file /var/run/fakegpus/refuse no device is given out, and the kubelet does not admit who asks for one.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	every     = time.Second
	unhealthy = "/var/run/fakegpus/unhealthy"
	refuse    = "/var/run/fakegpus/refuse"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []string
}

func main() {
	resource := flag.String("resource", "nvidia.com/gpu", "the resource that the devices are of")
	count := flag.Int("count", 8, "how many devices a node has")
	flag.Parse()
	offered := &plugin{}
	for number := range *count {
		offered.devices = append(offered.devices, fmt.Sprintf("gpu-%d", number))
	}
	socket := strings.NewReplacer("/", "-", ".", "-").Replace(*resource) + ".sock"
	log.Fatal(serve(offered, *resource, filepath.Join(api.DevicePluginPath, socket)))
}

// serve ends when the kubelet takes the socket away, which it does when it starts: then the pod starts anew.
func serve(offered *plugin, resource, socket string) error {
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, offered)
	go func() { log.Fatal(server.Serve(listener)) }()
	if err := register(resource, filepath.Base(socket)); err != nil {
		return err
	}
	log.Printf("%d of %s offered", len(offered.devices), resource)
	for {
		time.Sleep(every)
		if _, err := os.Stat(socket); err != nil {
			return fmt.Errorf("the kubelet began anew: %w", err)
		}
	}
}

func register(resource, endpoint string) error {
	kubelet, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(kubelet).Register(ctx, &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     endpoint,
		ResourceName: resource,
		Options:      &api.DevicePluginOptions{GetPreferredAllocationAvailable: true},
	})
	return err
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

// ListAndWatch tells all devices at first and whenever the health of one changes.
func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	for told := "never"; ; {
		text, _ := os.ReadFile(unhealthy)
		if broken := string(text); broken != told {
			if err := stream.Send(&api.ListAndWatchResponse{Devices: p.health(strings.Fields(broken))}); err != nil {
				return err
			}
			told = broken
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(every):
		}
	}
}

func (p *plugin) health(broken []string) []*api.Device {
	var devices []*api.Device
	for _, id := range p.devices {
		device := &api.Device{ID: id, Health: api.Healthy}
		for _, one := range broken {
			if one == id {
				device.Health = api.Unhealthy
			}
		}
		devices = append(devices, device)
	}
	return devices
}

func (p *plugin) GetPreferredAllocation(
	_ context.Context, request *api.PreferredAllocationRequest,
) (*api.PreferredAllocationResponse, error) {
	response := &api.PreferredAllocationResponse{}
	for _, container := range request.ContainerRequests {
		chosen := prefer(container.AvailableDeviceIDs, container.MustIncludeDeviceIDs, int(container.AllocationSize))
		response.ContainerResponses = append(response.ContainerResponses,
			&api.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return response, nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	if _, err := os.Stat(refuse); err == nil {
		return nil, fmt.Errorf("%s is there: nothing is given out", refuse)
	}
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		})
	}
	return response, nil
}
