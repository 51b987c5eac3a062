package collect

import (
	"context"
	"net"
	"strings"

	"cvs/collect/driver"
	"cvs/collect/fabric"
	"cvs/collect/plan"
)

// masterAddr is where the ranks meet: params.master_addr, or the address by
// which the other nodes know the head.
func masterAddr(p *plan.Plan) string {
	if a := strings.TrimSpace(p.Params.MasterAddr); a != "" {
		return a
	}
	if len(p.Cluster.Nodes) == 0 {
		return ""
	}
	head := p.Cluster.Nodes[0]
	if head.VPCIP != "" {
		return head.VPCIP
	}
	if host, _, err := net.SplitHostPort(head.Addr); err == nil {
		return host
	}
	return head.Addr
}

// topology finds the fabric of a server that spans nodes, before anything is
// started on them.
func (x *run) topology(ctx context.Context) error {
	var nodes []fabric.Node
	for _, m := range x.members {
		nodes = append(nodes, fabric.Node{Node: m.at, Ask: func(ctx context.Context, args []string) (string, error) {
			res, err := m.do(ctx, m.cmds.ask(args))
			return string(res.Stdout), err
		}})
	}
	found, err := fabric.Discover(ctx, nodes, fabric.Want{
		HCAs: x.p.Server.IBHCADevices, Netdev: x.p.Server.IBNetdev, Master: masterAddr(x.p)})
	if err != nil {
		return err
	}
	for _, m := range x.members {
		m.fabric = driver.Rank{Index: m.rank, MasterAddr: found.Master, Netdev: found.Netdev, HCAs: found.HCAs}
	}
	x.note("topology", "%d nodes over %s, HCAs %s, rank 0 at %s", len(x.members), found.Netdev, strings.Join(found.HCAs, ","), found.Master)
	return nil
}
