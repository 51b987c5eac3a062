package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// maxJumps bounds a chain of jump hosts; a configuration whose hosts jump
// through each other would never end.
const maxJumps = 8

// DialThrough connects to a host through jump hosts, the first of which is
// reached directly. Closing the Host closes them, too. Without hops it is Dial.
func DialThrough(ctx context.Context, hops []Config, c Config) (*Host, error) {
	var via *Host
	for _, hop := range hops {
		next, err := dialVia(ctx, via, hop)
		if err != nil {
			return nil, fmt.Errorf("jump host %s on the way to %s: %w", hop.Addr, c.Addr, err)
		}
		via = next
	}
	return dialVia(ctx, via, c)
}

// dialVia makes the connection own the one that it goes through.
func dialVia(ctx context.Context, via *Host, c Config) (*Host, error) {
	if via == nil {
		return Dial(ctx, c)
	}
	c.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) { return via.DialTCP(ctx, addr) }
	h, err := Dial(ctx, c)
	if err != nil {
		return nil, errors.Join(err, via.Close())
	}
	h.via = via
	h.notices = slices.Concat(via.notices, h.notices)
	return h, nil
}

// A Route says how to find the way to hosts: what ssh's own configuration file
// says, and jump hosts that are named beside it.
type Route struct {
	File string // ssh_config, "" for none
	Home string // what "~" stands for in it
	// Jump is a list as for ssh -J: [user@]host[:port], separated by commas, and
	// visited in that order. It replaces the file's ProxyJump.
	Jump string
}

// Check reports what is wrong with the file's name and the list without asking
// anybody about a host. Its errors match ErrInput.
func (r Route) Check() error {
	var errs []error
	if r.File != "" {
		if f, err := os.Open(r.File); err != nil {
			errs = append(errs, inputError{fmt.Errorf("ssh configuration: %w", err)})
		} else {
			f.Close()
		}
	}
	if r.Jump != "" {
		for _, spec := range strings.Split(r.Jump, ",") {
			if _, addr := jumpSpec(spec); addr != "" {
				if _, _, err := splitAddr(addr); err == nil {
					continue
				}
			}
			errs = append(errs, inputError{fmt.Errorf("jump host %q: expected [user@]host[:port]", spec)})
		}
	}
	return errors.Join(errs...)
}

// Resolve returns how to reach a host, and the jump hosts on the way, the first
// one first. Base holds what was stated elsewhere and wins over the file: User,
// KeyFiles and KnownHostsFiles as far as they are set, and the port of Addr;
// password, agent, timeouts and host key rules are taken as they are. Jump hosts
// get the same, but of users and keys what the file or the list says of them, and
// base's only without that. Errors match ErrInput.
func (r Route) Resolve(ctx context.Context, base Config) (c Config, hops []Config, err error) {
	c, jump, err := r.lookUp(ctx, base, base.Addr)
	if err != nil {
		return Config{}, nil, err
	}
	if r.Jump != "" {
		jump = r.Jump
	}
	hops, err = r.chain(ctx, base, jump, maxJumps)
	if err != nil {
		return Config{}, nil, fmt.Errorf("the way to %s: %w", base.Addr, err)
	}
	return c, hops, nil
}

// lookUp lays base over what the file says about an address.
func (r Route) lookUp(ctx context.Context, base Config, addr string) (Config, string, error) {
	c := base
	c.Addr = addr
	if r.File == "" {
		return c, "", nil
	}
	found, jump, err := ResolveSSHConfig(ctx, r.File, r.Home, base.User, addr)
	if err != nil {
		return Config{}, "", err
	}
	c.Addr, c.HostKeyAlias, c.IdentitiesOnly = found.Addr, found.HostKeyAlias, found.IdentitiesOnly
	if c.User == "" {
		c.User = found.User
	}
	if len(c.KeyFiles) == 0 {
		c.SpareKeyFiles = found.KeyFiles // ssh's defaults are among them
	}
	if len(c.KnownHostsFiles) == 0 {
		c.KnownHostsFiles = found.KnownHostsFiles
	}
	return c, jump, nil
}

// chain resolves a list of jump hosts. As with ssh, only a list's first host may
// be reached through further ones that the file names.
func (r Route) chain(ctx context.Context, base Config, list string, left int) ([]Config, error) {
	var hops []Config
	if list == "" {
		return nil, nil
	}
	for i, spec := range strings.Split(list, ",") {
		if left--; left < 0 {
			return nil, inputError{fmt.Errorf("more than %d jump hosts: does one jump through itself?", maxJumps)}
		}
		user, addr := jumpSpec(spec)
		from := base
		if from.User = user; r.File != "" {
			from.KeyFiles = nil // the file knows the jump host's; base's are spares
		} else if user == "" {
			from.User = base.User
		}
		c, further, err := r.lookUp(ctx, from, addr)
		if err != nil {
			return nil, err
		}
		if _, _, err := splitAddr(c.Addr); err != nil {
			return nil, inputError{fmt.Errorf("jump host %q: %w", spec, err)}
		}
		if r.File != "" {
			c.SpareKeyFiles = append(c.SpareKeyFiles, base.KeyFiles...)
		}
		c.Password = "" // a node's password is not for the machines on the way
		if i == 0 && further != "" {
			more, err := r.chain(ctx, base, further, left)
			if err != nil {
				return nil, err
			}
			left -= len(more)
			hops = append(hops, more...)
		}
		hops = append(hops, c)
	}
	return hops, nil
}

// jumpSpec splits [user@]host[:port], with or without ssh:// in front.
func jumpSpec(spec string) (user, addr string) {
	spec = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(spec), "ssh://"), "/")
	if i := strings.LastIndexByte(spec, '@'); i >= 0 {
		return spec[:i], spec[i+1:]
	}
	return "", spec
}
