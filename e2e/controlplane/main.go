// Command controlplane holds the four servers of a Kubernetes control plane.
//
// One binary keeps the build to one link; each server still runs as a process of its own,
// because each installs signal handlers, and because tests stop them one by one:
//
//	controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
	_ "time/tzdata" // CronJobs name time zones; a static binary has no system table

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// servers lists how the command of each server is made, by its usual name.
var servers = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 || servers[os.Args[1]] == nil {
		names := make([]string, 0, len(servers))
		for name := range servers {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "usage: controlplane %s [flags]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	// The commands read os.Args themselves: leave out our own name.
	os.Args = os.Args[1:]
	os.Exit(cli.Run(servers[os.Args[0]]()))
}
