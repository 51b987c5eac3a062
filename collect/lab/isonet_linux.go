package lab

import (
	"fmt"
	"net"
	"os"

	// Interfaces, addresses and routes are the kernel's netlink protocol, which
	// is not this package's purpose.
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A bridge is the switch between the nodes. It lives in the namespace of the
// process that holds the lab together and is joined to no network of the machine.
type bridge struct{ link *netlink.Bridge }

const nodeInterface = "eth0"

func newBridge() (*bridge, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "cvslab"
	b := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(b); err != nil {
		return nil, fmt.Errorf("a network between nodes needs the kernel's bridge: %w", err)
	}
	if err := netlink.LinkSetUp(b); err != nil {
		return nil, fmt.Errorf("bringing the bridge up: %w", err)
	}
	return &bridge{b}, nil
}

// plug gives the node whose first process that is an eth0.
func (b *bridge) plug(i, pid int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = fmt.Sprintf("node%d", i), b.link.Attrs().Index
	// The peer is renamed on arrival: in this namespace its name must be unique.
	peer := fmt.Sprintf("peer%d", i)
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer}); err != nil {
		return fmt.Errorf("a network between nodes needs the kernel's veth: %w", err)
	}
	for _, name := range []string{attrs.Name, peer} {
		link, err := netlink.LinkByName(name)
		if err == nil && name == peer {
			err = netlink.LinkSetNsPid(link, pid)
		} else if err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			return fmt.Errorf("plugging %s in: %w", name, err)
		}
	}
	return nil
}

// nodeNetwork brings a node's interfaces up, from inside, and names the node.
func nodeNetwork(spec nodeSpec) error {
	if err := unix.Sethostname([]byte(spec.Name)); err != nil {
		return fmt.Errorf("naming the host: %w", err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing interfaces: %w", err)
	}
	found := false
	for _, l := range links {
		switch l.Type() {
		case "veth":
			found = true
			if err := netlink.LinkSetName(l, nodeInterface); err != nil {
				return fmt.Errorf("naming the interface: %w", err)
			}
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(spec.IP).To4(), Mask: net.CIDRMask(24, 32)}}
			if err := netlink.AddrAdd(l, addr); err != nil {
				return fmt.Errorf("setting the address %s: %w", spec.IP, err)
			}
		case "device":
			if l.Attrs().Flags&net.FlagLoopback == 0 {
				continue
			}
			if !spec.Network { // the node's address has to be somewhere
				if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(spec.IP).To4(), Mask: net.CIDRMask(32, 32)}}); err != nil {
					return fmt.Errorf("setting the address %s: %w", spec.IP, err)
				}
			}
		default:
			continue
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("bringing %s up: %w", l.Attrs().Name, err)
		}
	}
	if spec.Network && !found {
		return fmt.Errorf("no interface arrived: %w", os.ErrNotExist)
	}
	return nil
}
