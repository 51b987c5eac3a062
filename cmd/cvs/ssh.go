package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"cvs/collect"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// sshOptions say how nodes are reached.
type sshOptions struct {
	knownHosts []string
	acceptNew  bool
	timeout    time.Duration
}

func (o *sshOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.knownHosts, "known-hosts", nil, "known_hosts `file` (default: ~/.ssh/known_hosts; may be given several times)")
	f.BoolVar(&o.acceptNew, "accept-new-host-keys", false, "trust and remember the key of a host that is met for the first time; a changed key is always refused")
	f.DurationVar(&o.timeout, "connect-timeout", 20*time.Second, "bound for connecting to one node, handshake included")
}

// passwordEnv may hold the SSH password, so that it need not stand in a file.
const passwordEnv = "CVS_SSH_PASSWORD"

// dialer returns what a runner calls to reach a node.
func (o *sshOptions) dialer(e *env, p *plan.Plan) func(context.Context, plan.Node) (collect.Node, error) {
	return func(ctx context.Context, n plan.Node) (collect.Node, error) {
		home := e.getenv("HOME")
		c := remote.Config{
			Addr: n.Addr, User: p.Cluster.Username, Password: p.Cluster.Password,
			AgentSocket: e.getenv("SSH_AUTH_SOCK"), KnownHostsFiles: o.knownHosts,
			AcceptNew: o.acceptNew, Timeout: o.timeout,
		}
		if len(c.KnownHostsFiles) == 0 && home != "" {
			c.KnownHostsFiles = []string{filepath.Join(home, ".ssh", "known_hosts")}
		}
		if c.Password == "" {
			c.Password = e.getenv(passwordEnv)
		}
		if p.Cluster.PrivKeyFile != "" {
			c.KeyFiles = []string{p.Cluster.PrivKeyFile}
		}
		h, err := remote.Dial(ctx, c)
		if err != nil {
			return nil, err
		}
		return h, nil
	}
}
