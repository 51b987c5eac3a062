package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"cvs/collect"
	"cvs/collect/plan"
	"cvs/collect/remote"
)

// sshOptions say how nodes are reached. What the cluster file states (username,
// priv_key_file, password, the port of a node) wins over --ssh_config, which says
// the rest: HostName, Port, User, IdentityFile, HostKeyAlias, known_hosts files
// and ProxyJump. --known-hosts and --jump-host win over both.
type sshOptions struct {
	knownHosts []string
	acceptNew  bool
	timeout    time.Duration
	config     string
	jump       string
}

func (o *sshOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.knownHosts, "known-hosts", nil, "known_hosts `file` (default: those of --ssh_config, else ~/.ssh/known_hosts; may be given several times)")
	f.BoolVar(&o.acceptNew, "accept-new-host-keys", false, "trust and remember the key of a host that is met for the first time; a changed key is always refused")
	f.DurationVar(&o.timeout, "connect-timeout", 20*time.Second, "bound for connecting to one host, handshake included")
	f.StringVar(&o.config, "ssh_config", "", "look nodes up in this ssh_config `file` as ssh does (asks ssh -G); what the cluster file states wins over it")
	f.StringVar(&o.jump, "jump-host", "", "reach every node through `[user@]host[:port]`; several are separated by commas, the first one first (default: ProxyJump of --ssh_config)")
}

// check finds mistakes before anything is asked of a node.
func (o *sshOptions) check() error {
	if o.timeout <= 0 {
		return badInput("--connect-timeout %s: want more than 0", o.timeout)
	}
	return remote.Route{File: o.config, Jump: o.jump}.Check()
}

// args are the options as they are written into run.json.
func (o *sshOptions) args() (args []string) {
	if o.config != "" {
		args = append(args, "--ssh_config", o.config)
	}
	if o.jump != "" {
		args = append(args, "--jump-host", o.jump)
	}
	return args
}

// passwordEnv may hold the SSH password, so that it need not stand in a file.
const passwordEnv = "CVS_SSH_PASSWORD"

// dialer returns what a runner calls to reach a node.
func (o *sshOptions) dialer(e *env, p *plan.Plan) func(context.Context, plan.Node) (collect.Node, error) {
	return func(ctx context.Context, n plan.Node) (collect.Node, error) {
		c, hops, err := o.target(ctx, e, p, n)
		if err != nil {
			return nil, err
		}
		h, err := remote.DialThrough(ctx, hops, c)
		if err != nil {
			return nil, err
		}
		return h, nil
	}
}

// checkLogin finds what is wrong with the way to the nodes and the keys for it
// without asking any of them; a key that serves several is named once. What is no
// mistake of the user's is left to the run, which says it of the node.
func (o *sshOptions) checkLogin(ctx context.Context, e *env, p *plan.Plan) error {
	var errs []error
	said := make(map[string]bool)
	for _, n := range p.Cluster.Nodes {
		c, hops, err := o.target(ctx, e, p, n)
		if err == nil {
			for _, hop := range append(hops, c) {
				err = errors.Join(err, hop.Check())
			}
		}
		if errors.Is(err, remote.ErrInput) && !said[err.Error()] {
			said[err.Error()] = true
			errs = append(errs, badInput("%v", err))
		}
	}
	return errors.Join(errs...)
}

// target is how a node is reached, and through what.
func (o *sshOptions) target(ctx context.Context, e *env, p *plan.Plan, n plan.Node) (remote.Config, []remote.Config, error) {
	home := e.getenv("HOME")
	c := remote.Config{
		Addr: n.Addr, User: p.Cluster.Username, Password: p.Cluster.Password,
		AgentSocket: e.getenv("SSH_AUTH_SOCK"), KnownHostsFiles: o.knownHosts,
		AcceptNew: o.acceptNew, Timeout: o.timeout,
	}
	if len(c.KnownHostsFiles) == 0 && home != "" && o.config == "" {
		c.KnownHostsFiles = []string{filepath.Join(home, ".ssh", "known_hosts")}
	}
	if c.Password == "" {
		c.Password = e.getenv(passwordEnv)
	}
	if p.Cluster.PrivKeyFile != "" {
		c.KeyFiles = []string{p.Cluster.PrivKeyFile}
	}
	return remote.Route{File: o.config, Home: home, Jump: o.jump}.Resolve(ctx, c)
}
