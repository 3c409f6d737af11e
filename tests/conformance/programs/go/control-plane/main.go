// One program with Kubernetes' API server, its controllers, its scheduler and etcd: the first argument chooses.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "etcd, kube-apiserver, kube-controller-manager or kube-scheduler?")
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	var command *cobra.Command
	switch os.Args[0] {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	default:
		fmt.Fprintln(os.Stderr, "no such program:", os.Args[0])
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
