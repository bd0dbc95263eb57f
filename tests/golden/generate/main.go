// Writes requests.json: pods, and what Kubernetes' own code says that they ask for.
//
// How to run: see ../README.md. The pods are made here, half by hand and half at random (fixed seed);
// the answers come from k8s.io/component-helpers/resource, with the options of kube-scheduler's NodeInfo.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
)

type vector struct {
	Name string           `json:"name"`
	Pod  *v1.Pod          `json:"pod"`
	Want map[string]int64 `json:"want"`
}

type quantity struct {
	Text  string `json:"text"`
	Valid bool   `json:"valid"`
	Value int64  `json:"value"`
	Milli int64  `json:"milli"`
}

type golden struct {
	Pods       []vector   `json:"pods"`
	Quantities []quantity `json:"quantities"`
}

func list(pairs ...string) v1.ResourceList {
	made := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		made[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return made
}

func container(name string, pairs ...string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list(pairs...)}}
}

func sidecar(name string, pairs ...string) v1.Container {
	made := container(name, pairs...)
	always := v1.ContainerRestartPolicyAlways
	made.RestartPolicy = &always
	return made
}

func status(name string, allotted, inForce v1.ResourceList) v1.ContainerStatus {
	made := v1.ContainerStatus{Name: name, AllocatedResources: allotted}
	if inForce != nil {
		made.Resources = &v1.ResourceRequirements{Requests: inForce}
	}
	return made
}

func infeasible(reason string) []v1.PodCondition {
	return []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason}}
}

func pod(containers, inits []v1.Container, change ...func(*v1.Pod)) *v1.Pod {
	made := &v1.Pod{Spec: v1.PodSpec{Containers: containers, InitContainers: inits}}
	for _, one := range change {
		one(made)
	}
	return made
}

func podLevel(pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{Requests: list(pairs...)} }
}

func overhead(pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Overhead = list(pairs...) }
}

func statuses(all ...v1.ContainerStatus) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.ContainerStatuses = all }
}

func initStatuses(all ...v1.ContainerStatus) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.InitContainerStatuses = all }
}

func resize(reason string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.Conditions = infeasible(reason) }
}

func podStatus(allotted, inForce v1.ResourceList) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.AllocatedResources = allotted
		if inForce != nil {
			p.Status.Resources = &v1.ResourceRequirements{Requests: inForce}
		}
	}
}

type cs = []v1.Container

func byHand() map[string]*v1.Pod {
	return map[string]*v1.Pod{
		"nothing asked":                            pod(cs{container("a")}, nil),
		"one container":                            pod(cs{container("a", "cpu", "500m", "memory", "1Gi")}, nil),
		"containers add up":                        pod(cs{container("a", "cpu", "500m"), container("b", "cpu", "1", "nvidia.com/gpu", "8")}, nil),
		"the sum is rounded, not the parts":        pod(cs{container("a", "cpu", "100u"), container("b", "cpu", "100u")}, nil),
		"part of a byte":                           pod(cs{container("a", "memory", "1500m"), container("b", "memory", "400m")}, nil),
		"one nano core":                            pod(cs{container("a", "cpu", "1n")}, nil),
		"limits without requests are not requests": pod(cs{{Name: "a", Resources: v1.ResourceRequirements{Limits: list("cpu", "2")}}}, nil),
		"init container larger":                    pod(cs{container("a", "cpu", "1")}, cs{container("i", "cpu", "3")}),
		"init container smaller":                   pod(cs{container("a", "cpu", "1")}, cs{container("i", "cpu", "500m")}),
		"init of another resource":                 pod(cs{container("a", "cpu", "1")}, cs{container("i", "nvidia.com/gpu", "1")}),
		"two inits do not add up":                  pod(cs{container("a", "cpu", "1")}, cs{container("i", "cpu", "2"), container("j", "cpu", "2")}),
		"sidecar adds to containers":               pod(cs{container("a", "cpu", "1")}, cs{sidecar("s", "cpu", "1")}),
		"sidecar before init":                      pod(cs{container("a", "cpu", "1")}, cs{sidecar("s", "cpu", "1"), container("i", "cpu", "3")}),
		"sidecar after init":                       pod(cs{container("a", "cpu", "1")}, cs{container("i", "cpu", "3"), sidecar("s", "cpu", "1")}),
		"sidecars between inits":                   pod(cs{container("a", "cpu", "1")}, cs{sidecar("s", "cpu", "1"), container("i", "cpu", "3"), sidecar("t", "cpu", "2"), container("j", "cpu", "2")}),
		"overhead":                                 pod(cs{container("a", "cpu", "1")}, nil, overhead("cpu", "250m", "memory", "120Mi")),
		"overhead on top of init":                  pod(cs{container("a", "cpu", "1")}, cs{container("i", "cpu", "3")}, overhead("cpu", "250m")),
		"pod level replaces the sum":               pod(cs{container("a", "cpu", "1", "memory", "1Gi")}, nil, podLevel("cpu", "3")),
		"pod level below the sum":                  pod(cs{container("a", "cpu", "4")}, nil, podLevel("cpu", "3", "memory", "2Gi")),
		"pod level huge pages":                     pod(cs{container("a", "hugepages-2Mi", "4Mi")}, nil, podLevel("hugepages-2Mi", "8Mi", "cpu", "1")),
		"pod level does not speak of gpus":         pod(cs{container("a", "nvidia.com/gpu", "2")}, nil, podLevel("nvidia.com/gpu", "4")),
		"pod level with overhead and init":         pod(cs{container("a", "cpu", "1")}, cs{container("i", "cpu", "9")}, podLevel("cpu", "2"), overhead("cpu", "100m")),
		"pod level of zero":                        pod(cs{container("a", "cpu", "1")}, nil, podLevel("cpu", "0")),
		"pod level limits only":                    pod(cs{container("a", "cpu", "1")}, nil, func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{Limits: list("cpu", "4")} }),
		"ephemeral storage and huge pages":         pod(cs{container("a", "ephemeral-storage", "10Gi", "hugepages-1Gi", "2Gi")}, nil),
		"mig and shares":                           pod(cs{container("a", "nvidia.com/mig-1g.10gb", "2", "nvidia.com/gpumem", "4096")}, nil),
		"a name that is not counted":               pod(cs{container("a", "requests.nvidia.com/gpu", "2", "storage", "5Gi", "cpu", "1")}, nil),
		"exponents":                                pod(cs{container("a", "cpu", "1e1", "memory", "12e6"), container("b", "memory", "1E3")}, nil),
		"resize up, not done":                      pod(cs{container("a", "cpu", "2")}, nil, statuses(status("a", list("cpu", "1"), list("cpu", "1")))),
		"resize down, not done":                    pod(cs{container("a", "cpu", "1")}, nil, statuses(status("a", list("cpu", "2"), list("cpu", "2")))),
		"resize allotted, not in force":            pod(cs{container("a", "cpu", "2")}, nil, statuses(status("a", list("cpu", "3"), list("cpu", "1")))),
		"resize infeasible":                        pod(cs{container("a", "cpu", "9")}, nil, statuses(status("a", list("cpu", "1"), list("cpu", "2"))), resize("Infeasible")),
		"resize deferred":                          pod(cs{container("a", "cpu", "9")}, nil, statuses(status("a", list("cpu", "1"), list("cpu", "2"))), resize("Deferred")),
		"resize infeasible without a status":       pod(cs{container("a", "cpu", "9")}, nil, resize("Infeasible")),
		"resize infeasible, one status":            pod(cs{container("a", "cpu", "9"), container("b", "cpu", "3")}, nil, statuses(status("a", list("cpu", "1"), nil)), resize("Infeasible")),
		"resize infeasible, a status that repeats": pod(cs{container("a", "cpu", "2"), container("b", "cpu", "9")}, nil, statuses(status("a", list("cpu", "2"), list("cpu", "2")), status("b", list("cpu", "1"), nil)), resize("Infeasible")),
		"two statuses of one name":                 pod(cs{container("a", "cpu", "2")}, nil, statuses(status("a", list("cpu", "3"), nil)), initStatuses(status("a", list("cpu", "5"), nil))),
		"in force without allotted":                pod(cs{container("a", "cpu", "2")}, nil, statuses(status("a", nil, list("cpu", "5")))),
		"allotted without in force":                pod(cs{container("a", "cpu", "2")}, nil, statuses(status("a", list("cpu", "5"), nil))),
		"opposite resizes of two containers":       pod(cs{container("a", "cpu", "2"), container("b", "cpu", "1")}, nil, statuses(status("a", list("cpu", "1"), list("cpu", "1")), status("b", list("cpu", "2"), list("cpu", "2")))),
		"a sidecar resized":                        pod(cs{container("a", "cpu", "2")}, cs{sidecar("s", "cpu", "1")}, initStatuses(status("s", list("cpu", "4"), list("cpu", "4")))),
		"an init container with a status":          pod(cs{container("a", "cpu", "2")}, cs{container("i", "cpu", "1")}, initStatuses(status("i", list("cpu", "4"), list("cpu", "4")))),
		"a status of an unknown container":         pod(cs{container("a", "cpu", "2")}, nil, statuses(status("z", list("cpu", "9"), list("cpu", "9")))),
		"an empty allotment":                       pod(cs{container("a", "cpu", "2")}, nil, statuses(status("a", list(), list("cpu", "1")))),
		"pod status in force and allotted":         pod(cs{container("a", "cpu", "2")}, nil, podStatus(list("cpu", "3"), list("cpu", "4"))),
		"pod status allotted only":                 pod(cs{container("a", "cpu", "2")}, nil, podStatus(list("cpu", "3"), nil)),
		"pod status in force only":                 pod(cs{container("a", "cpu", "2")}, nil, podStatus(nil, list("cpu", "4"))),
		"pod level resized up":                     pod(cs{container("a", "cpu", "1")}, nil, podLevel("cpu", "4"), podStatus(list("cpu", "2"), list("cpu", "2"))),
		"pod level resized down":                   pod(cs{container("a", "cpu", "1")}, nil, podLevel("cpu", "1"), podStatus(list("cpu", "2"), list("cpu", "3"))),
		"pod level resize infeasible":              pod(cs{container("a", "cpu", "1")}, nil, podLevel("cpu", "9"), podStatus(list("cpu", "2"), list("cpu", "3")), resize("Infeasible")),
		"pod level resize infeasible with memory":  pod(cs{container("a", "cpu", "1")}, nil, podLevel("cpu", "9", "memory", "1Gi"), podStatus(list("cpu", "2"), list("cpu", "3")), resize("Infeasible")),
		"pod level status adds a resource":         pod(cs{container("a", "cpu", "1")}, nil, podLevel("cpu", "2"), podStatus(list("memory", "2Gi"), list("cpu", "1"))),
		"pod level status names gpus":              pod(cs{container("a", "nvidia.com/gpu", "1")}, nil, podLevel("cpu", "2"), podStatus(list("nvidia.com/gpu", "3"), list("cpu", "1"))),
	}
}

var texts = []string{
	"0", "00", "1", "+1", "-1", "-0", "1.5", ".5", "5.", ".", "-", "+", "", " 1", "1 ", "1k", "1K", "1Ki", "1.5Ki", ".1Ki",
	"1M", "1Mi", "1G", "1Gi", "1T", "1Ti", "1P", "1Pi", "1E", "1e", "1Ei", "1ki", "1e3", "1E3", "1e+3", "1e-3", "1E-3",
	"1e-20", "0e5", "e3", "1n", "1u", "1m", "1500m", "999999999n", "1000000001n", "0.0000000001", "0.1n", "0.3333333333Gi",
	"1mm", "1m1", "1Kim", "m", "Ki", "1..5", "1.5.5", "0x10", "1_000", "١", "1e3Ki", "3e", "12e6", "123456789.987654321",
	"0.001", "0.0001", "1.0001", "2.5m", "0.5m", "100Gi", "1073741824", "17179869184Ki", "4.75Ti",
}

func randomList(r *rand.Rand) v1.ResourceList {
	made := v1.ResourceList{}
	for _, name := range []string{"cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "ephemeral-storage"} {
		if r.Intn(2) == 0 {
			continue
		}
		text := fmt.Sprint(r.Intn(64))
		if name == "cpu" {
			text += []string{"", "m", "u", "00m"}[r.Intn(4)]
		} else if name != "nvidia.com/gpu" {
			text += []string{"", "Ki", "Mi", "Gi", "M", "00m"}[r.Intn(6)]
		}
		made[v1.ResourceName(name)] = resource.MustParse(text)
	}
	return made
}

func maybe(r *rand.Rand) v1.ResourceList {
	if r.Intn(3) == 0 {
		return nil
	}
	return randomList(r)
}

func random(r *rand.Rand) *v1.Pod {
	made := &v1.Pod{}
	for i := 0; i <= r.Intn(3); i++ {
		name := fmt.Sprintf("c%d", i)
		made.Spec.Containers = append(made.Spec.Containers, v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: randomList(r)}})
		if r.Intn(2) == 0 {
			made.Status.ContainerStatuses = append(made.Status.ContainerStatuses, status(name, maybe(r), maybe(r)))
		}
	}
	for i := 0; i < r.Intn(4); i++ {
		one := container(fmt.Sprintf("i%d", i))
		if r.Intn(2) == 0 {
			one = sidecar(one.Name)
		}
		one.Resources.Requests = randomList(r)
		made.Spec.InitContainers = append(made.Spec.InitContainers, one)
		if r.Intn(3) == 0 {
			made.Status.InitContainerStatuses = append(made.Status.InitContainerStatuses, status(one.Name, maybe(r), maybe(r)))
		}
	}
	if r.Intn(3) == 0 {
		made.Spec.Overhead = randomList(r)
	}
	if r.Intn(3) == 0 {
		made.Spec.Resources = &v1.ResourceRequirements{Requests: randomList(r)}
	}
	if r.Intn(3) == 0 {
		podStatus(maybe(r), maybe(r))(made)
	}
	if r.Intn(3) == 0 {
		resize([]string{"Infeasible", "Deferred"}[r.Intn(2)])(made)
	}
	return made
}

// counted is kube-scheduler's choice of resources (pkg/scheduler/framework/types.go, Resource.Add).
func counted(name string) bool {
	switch name {
	case "cpu", "memory", "ephemeral-storage":
		return true
	}
	if strings.Contains(name, "/") {
		return !strings.HasPrefix(name, "requests.")
	}
	return strings.HasPrefix(name, "hugepages-") || strings.HasPrefix(name, "attachable-volumes-")
}

func wanted(p *v1.Pod) map[string]int64 {
	asked := helpers.PodRequests(p, helpers.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	made := map[string]int64{"pods": 1}
	for name, q := range asked {
		if value := q.Value(); counted(string(name)) && value != 0 {
			if name == v1.ResourceCPU {
				value = q.MilliValue()
			}
			made[string(name)] = value
		}
	}
	return made
}

func reread(p *v1.Pod) *v1.Pod {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	made := &v1.Pod{}
	if err := json.Unmarshal(text, made); err != nil {
		panic(err)
	}
	return made
}

func main() {
	made := golden{}
	hand := byHand()
	names := make([]string, 0, len(hand))
	for name := range hand {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		p := reread(hand[name])
		made.Pods = append(made.Pods, vector{name, p, wanted(p)})
	}
	r := rand.New(rand.NewSource(1))
	for i := 0; i < 60; i++ {
		p := reread(random(r))
		made.Pods = append(made.Pods, vector{fmt.Sprintf("random %d", i), p, wanted(p)})
	}
	for _, text := range texts {
		q, err := resource.ParseQuantity(text)
		made.Quantities = append(made.Quantities, quantity{text, err == nil, q.Value(), q.MilliValue()})
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(made); err != nil {
		panic(err)
	}
}
