// Numakubelet is a hollow kubelet with NUMA nodes: the real kubelet, with the real CPU manager (policy static) and the
// real topology manager (policy single-numa-node), on a machine and a container runtime that are made up.
//
// kubemark's own hollow kubelet has a stub in the place of these managers, which refuses no pod. Kubernetes schedulers
// count a node's CPUs as one number, so this kubelet refuses pods that they place rightly, with TopologyAffinityError.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	internalapi "k8s.io/cri-api/pkg/apis"
	remote "k8s.io/cri-client/pkg"
	fakeremote "k8s.io/cri-client/pkg/fake"
	"k8s.io/klog/v2"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/kubemark"
	"k8s.io/utils/cpuset"
)

const (
	numaNodes   = 2
	cpusPerNuma = 4
	memoryBytes = 16 << 30
	maxPods     = 110
	callTimeout = 15 * time.Second
)

// reserved is what the static policy keeps for the system: it needs at least one CPU, and takes it from NUMA node 0.
var reserved = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}

// machine reports the NUMA nodes to the kubelet, which reports their sum as the node's capacity.
type machine struct {
	cadvisortest.Fake
}

func (m *machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	info, err := m.Fake.MachineInfo()
	if err != nil {
		return nil, err
	}
	info.NumCores = numaNodes * cpusPerNuma
	info.NumPhysicalCores = info.NumCores
	info.NumSockets = 1
	info.MemoryCapacity = memoryBytes
	for numa := range numaNodes {
		node := cadvisorapi.Node{Id: numa, Memory: memoryBytes / numaNodes}
		for core := range cpusPerNuma {
			id := numa*cpusPerNuma + core
			node.Cores = append(node.Cores, cadvisorapi.Core{Id: id, Threads: []int{id}})
		}
		info.Topology = append(info.Topology, node)
	}
	return info, nil
}

// containers asks the topology manager whether a pod is admitted; all else is a stub's.
type containers struct {
	cm.ContainerManager
	cpus     cpumanager.Manager
	topology topologymanager.Manager
}

func newContainers(info *cadvisorapi.MachineInfo, stateFolder string) (*containers, error) {
	logger := klog.Background()
	topology, err := topologymanager.NewManager(
		info.Topology, topologymanager.PolicySingleNumaNode, "container", map[string]string{})
	if err != nil {
		return nil, err
	}
	cpus, err := cpumanager.NewManager(
		logger, string(cpumanager.PolicyStatic), nil, time.Hour, info, cpuset.New(), reserved, stateFolder, topology)
	if err != nil {
		return nil, err
	}
	topology.AddHintProvider(logger, cpus)
	return &containers{cm.NewStubContainerManager(), cpus, topology}, nil
}

func (c *containers) Start(
	ctx context.Context, node *v1.Node, pods cm.ActivePodsFunc, getNode cm.GetNodeFunc, sources config.SourcesReady,
	statuses status.PodStatusProvider, runtime internalapi.RuntimeService, swap bool,
) error {
	if err := c.ContainerManager.Start(ctx, node, pods, getNode, sources, statuses, runtime, swap); err != nil {
		return err
	}
	return c.cpus.Start(
		ctx, cpumanager.ActivePodsFunc(pods), sources, statuses, runtime, containermap.NewContainerMap())
}

func (c *containers) GetNodeAllocatableReservation() v1.ResourceList { return reserved }

func (c *containers) GetAllocateResourcesPodAdmitHandler() lifecycle.PodAdmitHandler {
	return c.topology
}

func run(ctx context.Context, name, kubeconfig, folder string, port, readOnlyPort int) error {
	connection, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	endpoint, err := fakeremote.GenerateEndpoint()
	if err != nil {
		return fmt.Errorf("endpoint of the runtime: %w", err)
	}
	fake := fakeremote.NewFakeRemoteRuntime()
	if err := fake.Start(endpoint); err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	defer fake.Stop()
	runtime, err := remote.NewRemoteRuntimeService(ctx, endpoint, callTimeout, noop.NewTracerProvider(), false)
	if err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	here := &machine{cadvisortest.Fake{NodeName: name}}
	info, err := here.MachineInfo()
	if err != nil {
		return err
	}
	managers, err := newContainers(info, folder)
	if err != nil {
		return fmt.Errorf("managers: %w", err)
	}
	flags, settings := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName:            name,
		KubeletPort:         port,
		KubeletReadOnlyPort: readOnlyPort,
		MaxPods:             maxPods,
		NodeLabels:          map[string]string{v1.LabelHostname: name},
	})
	settings.Address = "127.0.0.1"
	kubelet := kubemark.NewHollowKubelet(
		flags, settings, client, client, here, fake.ImageService, runtime, managers)
	kubelet.Run(ctx)
	return nil
}

func main() {
	name := flag.String("name", "", "name of the node")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	folder := flag.String("folder", "", "where the CPU manager keeps its state")
	port := flag.Int("kubelet-port", 0, "port of the kubelet")
	readOnlyPort := flag.Int("kubelet-read-only-port", 0, "its port without authentication")
	flag.Parse()
	if err := run(context.Background(), *name, *kubeconfig, *folder, *port, *readOnlyPort); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
