package fabric

import (
	"regexp"
	"slices"
	"strings"
)

// maxAnswer bounds what is read of an answer, in bytes: a host may print
// anything.
const maxAnswer = 1 << 20

// hcaName is what the kernel calls RDMA devices of the vendors in use.
var hcaName = regexp.MustCompile(`(?i)^(mlx5_\d+|rdma\d+|rocep\w+|bnxt_\w+|ionic_\d+)$`)

// ParseHCAs reads the output of "ibv_devinfo -l" or of "ls
// /sys/class/infiniband": names of RDMA devices, each once, in order. The banner
// of the first ("2 HCAs found:") and warnings are no names.
func ParseHCAs(out string) []string {
	var names []string
	for line := range strings.Lines(bounded(out)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(strings.ToLower(line), "warning") {
			continue
		}
		for _, word := range strings.Fields(line) {
			if hcaName.MatchString(word) && !slices.Contains(names, word) {
				names = append(names, word)
			}
		}
	}
	return names
}

// An Address is one IPv4 address of an interface.
type Address struct{ Dev, IP string }

// ParseAddresses reads the output of "ip -4 -o addr show": one address a line.
func ParseAddresses(out string) []Address {
	var list []Address
	for line := range strings.Lines(bounded(out)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "inet" {
			continue
		}
		ip, _, _ := strings.Cut(f[3], "/")
		dev, _, _ := strings.Cut(f[1], "@") // a VLAN or veth names its lower device
		if isIPv4(ip) && dev != "" {
			list = append(list, Address{Dev: dev, IP: ip})
		}
	}
	return list
}

// ParseRouteDev is the interface in the output of "ip route get", or "".
func ParseRouteDev(out string) string {
	f := strings.Fields(bounded(out))
	for i := 0; i+1 < len(f); i++ {
		if f[i] == "dev" {
			return f[i+1]
		}
	}
	return ""
}

// ParseResolved is the first IPv4 address in the output of "getent ahostsv4"
// that is not the loopback, or "".
func ParseResolved(out string) string {
	for line := range strings.Lines(bounded(out)) {
		f := strings.Fields(line)
		if len(f) > 0 && isIPv4(f[0]) && !strings.HasPrefix(f[0], "127.") {
			return f[0]
		}
	}
	return ""
}

var (
	netdevName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
	rdmaName   = regexp.MustCompile(`(?i)^mlx5_\d+$`)
)

// ValidNetdev reports whether a name can be that of a socket interface: neither
// the loopback nor an RDMA device.
func ValidNetdev(name string) bool {
	return netdevName.MatchString(name) && !rdmaName.MatchString(name) && name != "lo" && name != "lo0"
}

func bounded(s string) string {
	if len(s) > maxAnswer {
		return s[:maxAnswer]
	}
	return s
}
