package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdOptions are the few settings that a store on loopback needs.
type etcdOptions struct {
	dataDir       string
	clientURL     string
	peerURL       string
	unsafeNoFsync bool
}

// newEtcdCommand returns a command that runs one etcd member until SIGINT or SIGTERM.
func newEtcdCommand() *cobra.Command {
	var options etcdOptions
	command := &cobra.Command{
		Use:          "etcd",
		Short:        "Run a one-member etcd",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return runEtcd(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.dataDir, "data-dir", "default.etcd", "folder of the store")
	flags.StringVar(&options.clientURL, "listen-client-urls", "http://127.0.0.1:2379", "URL for clients")
	flags.StringVar(&options.peerURL, "listen-peer-urls", "http://127.0.0.1:2380", "URL for peers")
	flags.BoolVar(&options.unsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk; for tests only")
	return command
}

func runEtcd(ctx context.Context, options etcdOptions) error {
	client, err := url.Parse(options.clientURL)
	if err != nil {
		return fmt.Errorf("--listen-client-urls: %w", err)
	}
	peer, err := url.Parse(options.peerURL)
	if err != nil {
		return fmt.Errorf("--listen-peer-urls: %w", err)
	}
	config := embed.NewConfig()
	config.Dir = options.dataDir
	config.LogLevel = "warn"
	config.UnsafeNoFsync = options.unsafeNoFsync
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	member, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer member.Close()
	select {
	case err := <-member.Err():
		return err
	case <-ctx.Done():
		return nil
	}
}
