package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cvs/collect/plan"
)

func TestParseHCAs(t *testing.T) {
	t.Parallel()
	tests := []struct{ out, want string }{
		{"2 HCAs found:\n\tmlx5_0\n\tmlx5_1\n", "mlx5_0 mlx5_1"},
		{"1 HCA found:\n\tbnxt_re_bond0\n\n", "bnxt_re_bond0"},
		{"rocep1s0f0 rdma0 ionic_3\n", "rocep1s0f0 rdma0 ionic_3"},
		{"Warning: mlx5_9 is degraded\nMLX5_0\n", "MLX5_0"},
		{"mlx5_0\nmlx5_0\n", "mlx5_0"},
		{"0 HCAs found:\n", ""},
		{"ls: cannot access '/sys/class/infiniband': No such file or directory\n", ""},
		{"mlx5_0x mlx5_ $(reboot)", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got := strings.Join(ParseHCAs(tt.out), " "); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.out, got, tt.want)
		}
	}
}

const twoAddrs = `1: lo    inet 127.0.0.1/8 scope host lo\       valid_lft forever preferred_lft forever
2: ens1f0    inet 192.0.2.11/24 brd 192.0.2.255 scope global ens1f0\       valid_lft forever
4: bond0.7@bond0    inet 198.51.100.3/30 scope global bond0.7
5: broken inet
`

func TestParseOthers(t *testing.T) {
	t.Parallel()
	want := []Address{{"lo", "127.0.0.1"}, {"ens1f0", "192.0.2.11"}, {"bond0.7", "198.51.100.3"}}
	if got := ParseAddresses(twoAddrs); !slices.Equal(got, want) {
		t.Errorf("addresses: %v", got)
	}
	if got := ParseRouteDev("192.0.2.12 via 192.0.2.1 dev ens1f0 src 192.0.2.11 uid 0\n    cache"); got != "ens1f0" {
		t.Errorf("route: %q", got)
	}
	if got := ParseRouteDev("RTNETLINK answers: Network is unreachable dev"); got != "" {
		t.Errorf("no route: %q", got)
	}
	if got := ParseResolved("127.0.1.1 STREAM node1\n192.0.2.12 STREAM\n"); got != "192.0.2.12" {
		t.Errorf("resolved: %q", got)
	}
	for name, valid := range map[string]bool{"ens1f0": true, "bond0.7": true, "eth0:1": true, "lo": false, "lo0": false,
		"mlx5_0": false, "MLX5_11": false, "": false, "a b": false, "bash:": true, strings.Repeat("x", 65): false} {
		if ValidNetdev(name) != valid {
			t.Errorf("%q: valid %v", name, !valid)
		}
	}
}

// fake answers by the words of the question.
func fake(n plan.Node, answers map[string]string) Node {
	return Node{Node: n, Ask: func(_ context.Context, args []string) (string, error) {
		line := strings.Join(args, " ")
		for k, v := range answers {
			if strings.HasSuffix(line, k) {
				if v == "error" {
					return "", errors.New("connection lost")
				}
				return v, nil
			}
		}
		return "", nil
	}}
}

func addrs(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%d: %s    inet %s/24 scope global\n", i, pairs[i], pairs[i+1])
	}
	return b.String()
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	type m = map[string]string
	healthy := func(ip string) m {
		return m{"ibv_devinfo -l": "2 HCAs found:\n mlx5_0\n mlx5_2\n", "addr show": addrs("lo", "127.0.0.1", "ens1f0", ip)}
	}
	with := func(base m, kv ...string) m {
		out := m{}
		for k, v := range base {
			out[k] = v
		}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i]] = kv[i+1]
		}
		return out
	}
	one, two := healthy("192.0.2.11"), healthy("192.0.2.12")
	tests := []struct {
		name string
		a, b m
		want Want
		hcas string
		dev  string
		err  string
	}{
		{"both healthy", one, two, Want{}, "mlx5_0 mlx5_2", "ens1f0", ""},
		{"order of the first host, any order on the second", one, with(two, "ibv_devinfo -l", "mlx5_2 mlx5_0"), Want{}, "mlx5_0 mlx5_2", "ens1f0", ""},
		{"no tool on one: both by ls", with(one, "infiniband", "mlx5_1\nmlx5_0\n"), with(two, "ibv_devinfo -l", "", "infiniband", "mlx5_0\nmlx5_1\n"), Want{}, "mlx5_1 mlx5_0", "ens1f0", ""},
		{"no device on one", one, with(two, "ibv_devinfo -l", ""), Want{}, "", "", "192.0.2.11 has no RDMA device"},
		{"different devices", one, with(two, "ibv_devinfo -l", "mlx5_0"), Want{}, "", "", "192.0.2.11 has mlx5_0, mlx5_2, 192.0.2.12 has mlx5_0"},
		{"explicit devices", one, two, Want{HCAs: []string{"mlx5_2"}}, "mlx5_2", "ens1f0", ""},
		{"explicit devices that one host lacks", one, with(two, "ibv_devinfo -l", "mlx5_0"), Want{HCAs: []string{"mlx5_2"}}, "", "", "192.0.2.12 has no mlx5_2 (roles.server.ib_hca_devices); it has mlx5_0"},
		{"explicit interface", one, two, Want{Netdev: "ens1f0"}, "mlx5_0 mlx5_2", "ens1f0", ""},
		{"explicit interface that one host lacks", one, with(two, "addr show", addrs("eth9", "192.0.2.12")), Want{Netdev: "ens1f0"}, "", "", "192.0.2.12 has no interface ens1f0"},
		{"an RDMA device is no interface", one, two, Want{Netdev: "mlx5_0"}, "", "", "is no network interface's name"},
		{"auto in any case", one, two, Want{Netdev: "AUTO"}, "mlx5_0 mlx5_2", "ens1f0", ""},
		{"names differ", one, with(two, "addr show", addrs("eth9", "192.0.2.12")), Want{}, "", "", "192.0.2.11=ens1f0 192.0.2.12=eth9"},
		{"by the route", one, with(two, "addr show", addrs("eth0", "203.0.113.2"), "route get 192.0.2.11", "192.0.2.11 dev ens1f0 src 203.0.113.2"), Want{}, "mlx5_0 mlx5_2", "ens1f0", ""},
		{"nothing leads there", one, with(two, "addr show", addrs("lo", "127.0.0.1"), "route get 192.0.2.11", "192.0.2.11 dev lo"), Want{}, "", "", `no socket interface was found on 192.0.2.12 (its address 192.0.2.12, rank 0 192.0.2.11, interfaces lo 127.0.0.1, last answer "192.0.2.11 dev lo")`},
		{"master elsewhere", one, two, Want{Master: "192.0.2.99"}, "", "", "192.0.2.99, is not one of 192.0.2.11, which has 127.0.0.1, 192.0.2.11"},
		{"master by name", with(one, "ahostsv4 head", "127.0.1.1 STREAM head\n192.0.2.11 STREAM head"), with(two, "ahostsv4 head", "192.0.2.11 STREAM head"), Want{Master: "head"}, "mlx5_0 mlx5_2", "ens1f0", ""},
		{"master resolved differently", with(one, "ahostsv4 head", "192.0.2.11 STREAM head"), with(two, "ahostsv4 head", "192.0.2.77 STREAM head"), Want{Master: "head"}, "", "", "192.0.2.12 resolves the address of rank 0, head, to 192.0.2.77"},
		{"master not resolved", one, two, Want{Master: "head"}, "", "", "does not resolve the address of rank 0, head"},
		{"host lost", one, with(two, "addr show", "error"), Want{}, "", "", "asking 192.0.2.12 for its network: connection lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			nodes := []Node{fake(plan.Node{Addr: "192.0.2.11", VPCIP: "192.0.2.11"}, tt.a), fake(plan.Node{Addr: "192.0.2.12:2222", VPCIP: "192.0.2.12"}, tt.b)}
			nodes[1].Addr = "192.0.2.12"
			w := tt.want
			if w.Master == "" {
				w.Master = "192.0.2.11"
			}
			got, err := Discover(t.Context(), nodes, w)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || strings.Join(got.HCAs, " ") != tt.hcas || got.Netdev != tt.dev || got.Master != w.Master {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestByName has a node that the cluster file knows by name only.
func TestByName(t *testing.T) {
	t.Parallel()
	answers := map[string]string{"ibv_devinfo -l": "mlx5_0", "addr show": addrs("ens1f0", "192.0.2.11"), "ahostsv4 node1": "192.0.2.11 STREAM node1"}
	got, err := Discover(t.Context(), []Node{fake(plan.Node{Addr: "node1:22", VPCIP: "node1"}, answers)}, Want{Master: "node1"})
	if err != nil || got.Netdev != "ens1f0" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	if got := len(Questions(plan.Node{Addr: "192.0.2.11"}, "192.0.2.11")); got != 4 {
		t.Errorf("%d questions with addresses, want 4", got)
	}
	if got := len(Questions(plan.Node{Addr: "node1:22"}, "head")); got != 6 {
		t.Errorf("%d questions with names, want 6", got)
	}
}

// FuzzParse looks for answers that break the parsers or get a name through that
// the checks should stop.
func FuzzParse(f *testing.F) {
	f.Add("2 HCAs found:\n\tmlx5_0\n")
	f.Add(twoAddrs)
	f.Add("192.0.2.12 via 192.0.2.1 dev ens1f0 src 192.0.2.11")
	f.Add("127.0.1.1 STREAM x\n192.0.2.1 RAW")
	f.Fuzz(func(t *testing.T, out string) {
		for _, h := range ParseHCAs(out) {
			if strings.ContainsAny(h, " \n$;'\"") {
				t.Errorf("HCA %q", h)
			}
		}
		for _, a := range ParseAddresses(out) {
			if !isIPv4(a.IP) {
				t.Errorf("address %q", a.IP)
			}
		}
		if a := ParseResolved(out); a != "" && !isIPv4(a) {
			t.Errorf("resolved %q", a)
		}
		if d := ParseRouteDev(out); ValidNetdev(d) && strings.ContainsAny(d, " \n$;'\"") {
			t.Errorf("device %q", d)
		}
	})
}
