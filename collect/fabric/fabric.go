// Package fabric finds out, on the hosts' own operating systems, how the nodes
// of one server reach each other: their RDMA devices (HCAs), the socket
// interface, and the address of rank 0. Every check of spec 02 §6 is here.
//
// Parsing is pure. Questions are argument lists; how they reach a host is the
// caller's. It must not know containers, frameworks or what the answers are
// used for.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"cvs/collect/plan"
)

// A Node is one host, in rank order, and how to ask it. Ask returns standard
// output whatever the exit status: a program that is missing answers nothing.
// Its error means that the host did not answer.
type Node struct {
	plan.Node
	Ask func(ctx context.Context, args []string) (stdout string, err error)
}

// A Want is what the plan says; empty fields are to be found.
type Want struct {
	HCAs   []string
	Netdev string // "" or "auto": find it
	Master string // address or name of rank 0
}

// A Found is what all ranks share.
type Found struct {
	HCAs   []string // in the order of the config, or as the first host reports them
	Netdev string
	Master string
}

// ErrFabric marks hosts whose network cannot carry one server, or not as the
// plan wants it.
var ErrFabric = errors.New("fabric")

// The questions. Plain users may ask all of them; some systems keep ip out of
// their search path.
var (
	listHCAs  = []string{"ibv_devinfo", "-l"}
	lsHCAs    = []string{"ls", "/sys/class/infiniband"}
	addresses = ip("-4", "-o", "addr", "show")
)

func ip(args ...string) []string {
	return append([]string{"sh", "-c", `PATH=$PATH:/usr/sbin:/sbin; exec ip "$@"`, "sh"}, args...)
}

func resolve(name string) []string { return []string{"getent", "ahostsv4", name} }

func route(addr string) []string { return ip("route", "get", addr) }

// Questions lists what [Discover] may ask a node, for a dry run to show.
func Questions(n plan.Node, master string) [][]string {
	out := [][]string{listHCAs, lsHCAs, addresses}
	if usableIPv4(n) == "" {
		out = append(out, resolve(hostOf(n.Addr)))
	}
	if !isIPv4(master) {
		out = append(out, resolve(master))
	}
	return append(out, route(master))
}

// Discover asks all nodes and checks that they fit together. Its errors wrap
// ErrFabric and name hosts and what was found there, or are those of Ask.
func Discover(ctx context.Context, nodes []Node, w Want) (Found, error) {
	d := &discovery{nodes: nodes, hosts: make([]host, len(nodes))}
	if err := d.ask(ctx, w); err != nil {
		return Found{}, err
	}
	hcas, herr := d.hcas(w.HCAs)
	netdev, nerr := d.netdev(ctx, w)
	merr := d.master(w.Master)
	if err := errors.Join(herr, nerr, merr); err != nil {
		return Found{}, err
	}
	return Found{HCAs: hcas, Netdev: netdev, Master: w.Master}, nil
}

// A host is what one node answered.
type host struct {
	hcas   []string
	addrs  []Address
	own    string // its IPv4 address on the network between the nodes, "" if unknown
	master string // the master's IPv4 address as this node resolves it
}

type discovery struct {
	nodes []Node
	hosts []host
}

// all asks every node at once.
func (d *discovery) all(f func(i int) error) error {
	errs := make([]error, len(d.nodes))
	var wg sync.WaitGroup
	for i := range d.nodes {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *discovery) ask(ctx context.Context, w Want) error {
	question := func(i int, args []string) (string, error) {
		out, err := d.nodes[i].Ask(ctx, args)
		if err != nil {
			err = fmt.Errorf("asking %s for its network: %w", d.nodes[i].Addr, err)
		}
		return out, err
	}
	err := d.all(func(i int) error {
		h, n := &d.hosts[i], d.nodes[i].Node
		out, err := question(i, listHCAs)
		if err != nil {
			return err
		}
		h.hcas = ParseHCAs(out)
		if out, err = question(i, addresses); err != nil {
			return err
		}
		h.addrs = ParseAddresses(out)
		if h.own = usableIPv4(n); h.own == "" {
			if out, err = question(i, resolve(hostOf(n.Addr))); err != nil {
				return err
			}
			h.own = ParseResolved(out)
		}
		if h.master = w.Master; !isIPv4(w.Master) {
			if out, err = question(i, resolve(w.Master)); err != nil {
				return err
			}
			h.master = ParseResolved(out)
		}
		return nil
	})
	if err != nil || !slices.ContainsFunc(d.hosts, func(h host) bool { return len(h.hcas) == 0 }) {
		return err
	}
	// One host without the tool: all are asked the other way, so that the lists
	// can be compared.
	return d.all(func(i int) error {
		out, err := question(i, lsHCAs)
		d.hosts[i].hcas = ParseHCAs(out)
		return err
	})
}

func (d *discovery) hcas(want []string) ([]string, error) {
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrFabric}, a...)...))
	}
	for i, h := range d.hosts {
		if len(h.hcas) == 0 {
			bad("%s has no RDMA device: neither ibv_devinfo -l nor /sys/class/infiniband lists one", d.nodes[i].Addr)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if len(want) > 0 {
		for i, h := range d.hosts {
			var missing []string
			for _, w := range want {
				if !slices.Contains(h.hcas, w) {
					missing = append(missing, w)
				}
			}
			if len(missing) > 0 {
				bad("%s has no %s (roles.server.ib_hca_devices); it has %s", d.nodes[i].Addr, strings.Join(missing, ", "), strings.Join(h.hcas, ", "))
			}
		}
		return want, errors.Join(errs...)
	}
	first := slices.Sorted(slices.Values(d.hosts[0].hcas))
	for i, h := range d.hosts[1:] {
		if !slices.Equal(first, slices.Sorted(slices.Values(h.hcas))) {
			bad("the nodes have different RDMA devices: %s has %s, %s has %s; name those to use in roles.server.ib_hca_devices",
				d.nodes[0].Addr, strings.Join(d.hosts[0].hcas, ", "), d.nodes[i+1].Addr, strings.Join(h.hcas, ", "))
		}
	}
	return d.hosts[0].hcas, errors.Join(errs...)
}

func (d *discovery) netdev(ctx context.Context, w Want) (string, error) {
	if dev := strings.TrimSpace(w.Netdev); dev != "" && !strings.EqualFold(dev, "auto") {
		return dev, d.explicitNetdev(dev)
	}
	found := make([]string, len(d.hosts))
	err := d.all(func(i int) error {
		var err error
		found[i], err = d.autoNetdev(ctx, i)
		return err
	})
	if err != nil {
		return "", err
	}
	for i := range found {
		if found[i] != found[0] {
			var pairs []string
			for j, f := range found {
				pairs = append(pairs, d.nodes[j].Addr+"="+f)
			}
			return "", fmt.Errorf("%w: the nodes' socket interfaces have different names: %s; set roles.server.ib_netdev to one that every node has", ErrFabric, strings.Join(pairs, " "))
		}
	}
	return found[0], nil
}

func (d *discovery) explicitNetdev(dev string) error {
	if !ValidNetdev(dev) {
		return fmt.Errorf("%w: roles.server.ib_netdev %q is no network interface's name (an RDMA device is none)", ErrFabric, dev)
	}
	var errs []error
	for i, h := range d.hosts {
		if !slices.ContainsFunc(h.addrs, func(a Address) bool { return a.Dev == dev }) {
			errs = append(errs, fmt.Errorf("%w: %s has no interface %s with an IPv4 address (roles.server.ib_netdev); it has %s", ErrFabric, d.nodes[i].Addr, dev, devices(h.addrs)))
		}
	}
	return errors.Join(errs...)
}

// autoNetdev is the interface that holds the host's own address, or else the
// one that leads to the master.
func (d *discovery) autoNetdev(ctx context.Context, i int) (string, error) {
	h := d.hosts[i]
	for _, a := range h.addrs {
		if h.own != "" && a.IP == h.own && ValidNetdev(a.Dev) {
			return a.Dev, nil
		}
	}
	master, last := h.master, ""
	if master == "" {
		master = d.hosts[0].own
	}
	if master != "" {
		out, err := d.nodes[i].Ask(ctx, route(master))
		if err != nil {
			return "", fmt.Errorf("asking %s for its route: %w", d.nodes[i].Addr, err)
		}
		if dev := ParseRouteDev(out); ValidNetdev(dev) {
			return dev, nil
		}
		last = strings.TrimSpace(out)
	}
	return "", fmt.Errorf("%w: no socket interface was found on %s (its address %s, rank 0 %s, interfaces %s, last answer %q); set roles.server.ib_netdev",
		ErrFabric, d.nodes[i].Addr, orNone(h.own), orNone(master), devices(h.addrs), clip(last))
}

// master checks that the ranks will meet where rank 0 is.
func (d *discovery) master(name string) error {
	addr := d.hosts[0].master
	if addr == "" {
		return fmt.Errorf("%w: %s does not resolve the address of rank 0, %s", ErrFabric, d.nodes[0].Addr, name)
	}
	var errs []error
	if !slices.ContainsFunc(d.hosts[0].addrs, func(a Address) bool { return a.IP == addr }) {
		var have []string
		for _, a := range d.hosts[0].addrs {
			have = append(have, a.IP)
		}
		errs = append(errs, fmt.Errorf("%w: the address of rank 0, %s, is not one of %s, which has %s: correct params.master_addr or vpc_ip",
			ErrFabric, both(name, addr), d.nodes[0].Addr, orNone(strings.Join(have, ", "))))
	}
	for i, h := range d.hosts[1:] {
		if h.master != addr {
			errs = append(errs, fmt.Errorf("%w: %s resolves the address of rank 0, %s, to %s, but %s to %s",
				ErrFabric, d.nodes[i+1].Addr, name, orNone(h.master), d.nodes[0].Addr, addr))
		}
	}
	return errors.Join(errs...)
}

func both(name, addr string) string {
	if name == addr {
		return name
	}
	return name + " (" + addr + ")"
}

func devices(addrs []Address) string {
	var out []string
	for _, a := range addrs {
		out = append(out, a.Dev+" "+a.IP)
	}
	return orNone(strings.Join(out, ", "))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func clip(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "�") + "…"
	}
	return s
}

// usableIPv4 is the node's address as the cluster file writes it, where that
// tells which interface is meant: an IPv4 address that is not the loopback.
func usableIPv4(n plan.Node) string {
	for _, a := range []string{n.VPCIP, hostOf(n.Addr)} {
		if isIPv4(a) && !strings.HasPrefix(a, "127.") {
			return a
		}
	}
	return ""
}

func isIPv4(s string) bool {
	a := net.ParseIP(s)
	return a != nil && a.To4() != nil && !strings.Contains(s, ":")
}

// hostOf takes the port off a node's address.
func hostOf(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}
