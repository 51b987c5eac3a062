package lab

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// addressOf is the address of a node on its eth0. Without isolation there is
// none, and the answer is the one an isolated node would give.
func addressOf(p int) string { return isolatedIP(p) }

// number is the node's place among its peers.
func (s *shim) number() int {
	for i, p := range s.node.Peers {
		if p.Name == s.node.Name {
			return i
		}
	}
	return 0
}

// machineProgram passes a call on to the machine's own program of that name, or
// says that there is none.
func (s *shim) machineProgram() int {
	name, own := filepath.Base(s.args[0]), filepath.Join(s.dir, "bin")
	path, err := lookPath(s.environ, name, func(p string) bool { return filepath.Dir(p) == own })
	if err != nil {
		s.errorf("bash: %s: command not found", name)
		return 127
	}
	return s.become(path, append([]string{name}, s.args[1:]...))
}

// ibvDevinfo lists the network adapters.
func (s *shim) ibvDevinfo() int {
	f, err := readFaults(s.dir)
	if err != nil {
		s.errorf("ibv_devinfo: %v", err)
		return 1
	}
	names := f.HCAs
	if names == nil {
		for i := range nodeHCAs {
			names = append(names, hcaName(i))
		}
	}
	if len(names) == 0 || names[0] == "" {
		s.errorf("No IB devices found")
		return 255
	}
	switch args := s.args[1:]; {
	case len(args) == 1 && (args[0] == "-l" || args[0] == "--list"):
		fmt.Fprintf(s.stdout, "%d HCAs found:\n", len(names))
		for _, n := range names {
			fmt.Fprintf(s.stdout, "\t%s\n", n)
		}
		fmt.Fprintln(s.stdout)
	case len(args) == 0:
		for i, n := range names {
			fmt.Fprintf(s.stdout, "hca_id:\t%s\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t0.0.0\n\tnode_guid:\t\t\t0000:0000:0000:%04x\n\tphys_port_cnt:\t\t\t1\n"+
				"\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tactive_mtu:\t\t4096 (5)\n\t\t\tlink_layer:\t\tEthernet\n\n", n, i)
		}
	default:
		s.errorf("ibv_devinfo: a lab node knows -l only")
		return 1
	}
	return 0
}

// ipCommand answers what is asked to find the fabric and passes the rest on.
func (s *shim) ipCommand() int {
	f, err := readFaults(s.dir)
	if err != nil {
		s.errorf("ip: %v", err)
		return 1
	}
	dev := f.Netdev
	if dev == "" {
		dev = "eth0"
	}
	i := s.number()
	var words []string
	for _, a := range s.args[1:] {
		if a != "-o" && a != "-4" && a != "-oneline" && a != "show" && a != "list" && a != "-br" {
			words = append(words, a)
		}
	}
	only := ""
	if n := len(words); n > 2 && words[n-2] == "dev" {
		only, words = words[n-1], words[:n-2]
	} else if n == 2 && (words[0] == "addr" || words[0] == "link" || words[0] == "address" || words[0] == "a") {
		only, words = words[1], words[:1]
	}
	loopback := "127.0.0.1"
	if !s.node.Isolated {
		loopback = s.node.IP
	}
	if only != "" && only != "lo" && only != dev {
		s.errorf("Device \"%s\" does not exist.", only)
		return 1
	}
	switch strings.Join(words, " ") {
	case "addr", "address", "a":
		if only == "" || only == "lo" {
			fmt.Fprintf(s.stdout, "1: lo    inet %s/8 scope host lo\\       valid_lft forever preferred_lft forever\n", loopback)
		}
		if only == "" || only == dev {
			fmt.Fprintf(s.stdout, "2: %s    inet %s/24 brd 10.77.0.255 scope global %s\\       valid_lft forever preferred_lft forever\n", dev, addressOf(i), dev)
		}
		return 0
	case "link", "l":
		if only == "" || only == "lo" {
			fmt.Fprintln(s.stdout, `1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT group default qlen 1000\    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00`)
		}
		if only == "" || only == dev {
			fmt.Fprintf(s.stdout, "2: %s: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default qlen 1000\\    link/ether 02:00:00:00:00:%02x brd ff:ff:ff:ff:ff:ff\n", dev, i+1)
		}
		return 0
	}
	if len(words) == 3 && (words[0] == "route" || words[0] == "r") && words[1] == "get" {
		for j, p := range s.node.Peers {
			if words[2] == p.IP || words[2] == addressOf(j) {
				fmt.Fprintf(s.stdout, "%s dev %s src %s uid 0 \n    cache \n", words[2], dev, addressOf(i))
				return 0
			}
		}
		s.errorf("RTNETLINK answers: Network is unreachable")
		return 2
	}
	return s.machineProgram()
}

// getent resolves the nodes by name and by address, as every node's hosts file
// would.
func (s *shim) getent() int {
	args := s.args[1:]
	if len(args) == 2 && (args[0] == "ahostsv4" || args[0] == "ahosts" || args[0] == "hosts") {
		for i, p := range s.node.Peers {
			if args[1] != p.Name && args[1] != p.IP && args[1] != addressOf(i) {
				continue
			}
			if args[0] == "hosts" {
				fmt.Fprintf(s.stdout, "%-15s %s\n", addressOf(i), p.Name)
				return 0
			}
			for _, kind := range []string{"STREAM " + args[1], "DGRAM  ", "RAW    "} {
				fmt.Fprintf(s.stdout, "%-15s %s\n", addressOf(i), kind)
			}
			return 0
		}
	}
	return s.machineProgram()
}

// pip finds everything installed: an image brings what its framework needs.
func (s *shim) pip() int {
	args := s.args[1:]
	switch {
	case len(args) > 0 && args[0] == "install":
		quiet := false
		for _, a := range args[1:] {
			if quiet = quiet || a == "-q" || a == "--quiet"; !strings.HasPrefix(a, "-") && !quiet {
				fmt.Fprintf(s.stdout, "Requirement already satisfied: %s\n", a)
			}
		}
		return 0
	case len(args) == 2 && args[0] == "show":
		version := labVersion
		if args[1] == "lm-eval" || args[1] == "lm_eval" {
			version = lmEvalVersion
		}
		fmt.Fprintf(s.stdout, "Name: %s\nVersion: %s\nSummary: simulated\n", args[1], version)
		return 0
	case len(args) == 1 && (args[0] == "--version" || args[0] == "-V"):
		fmt.Fprintln(s.stdout, "pip 25.0 from /lab (python 3.12)")
		return 0
	}
	s.errorf("ERROR: unknown command \"%s\"", strings.Join(args, " "))
	return 1
}

// hf downloads the models that the lab knows, from nowhere.
func (s *shim) hf() int {
	args := s.args[1:]
	if len(args) < 2 || args[0] != "download" {
		s.errorf("usage: hf <command> [<args>]\nhf: error: a lab node knows 'hf download' only")
		return 2
	}
	hub := s.getenv("HF_HUB_CACHE")
	if hub == "" {
		hub = filepath.Join(s.getenv("HOME"), ".cache", "huggingface", "hub")
	}
	for _, m := range labModels {
		if m.id != args[1] {
			continue
		}
		dir, err := m.write(hub)
		if err != nil {
			s.errorf("%v", err)
			return 1
		}
		fmt.Fprintln(s.stdout, dir)
		return 0
	}
	s.errorf("huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. Repository Not Found for url: https://huggingface.co/api/models/%s/revision/main.", args[1])
	return 1
}

func itoa(n int) string { return strconv.Itoa(n) }
