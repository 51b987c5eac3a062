package plan

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"cvs/collect/strictjson"
)

// maxCount bounds lengths, concurrencies and counts: far beyond any use, and
// small enough that products of two do not overflow.
const maxCount = 1 << 30

var cellKey = regexp.MustCompile(`^ISL=([1-9][0-9]*),OSL=([1-9][0-9]*),TP=([1-9][0-9]*),PP=([1-9][0-9]*),CONC=([1-9][0-9]*)$`)

// CellKey builds the key of a cell: ISL=…,OSL=…,TP=…,PP=…,CONC=… (lengths in
// tokens). It always has PP and never the number of nodes.
func CellKey(isl, osl, tp, pp, conc int) string {
	return fmt.Sprintf("ISL=%d,OSL=%d,TP=%d,PP=%d,CONC=%d", isl, osl, tp, pp, conc)
}

// ParseCellKey takes a cell key apart. It accepts exactly what [CellKey] builds:
// keys are matched byte for byte, so nothing is trimmed or normalised.
func ParseCellKey(s string) (isl, osl, tp, pp, conc int, err error) {
	m := cellKey.FindStringSubmatch(s)
	if m == nil {
		return 0, 0, 0, 0, 0, fmt.Errorf("%s is not a cell key; expected ISL=<n>,OSL=<n>,TP=<n>,PP=<n>,CONC=<n>", quote(s))
	}
	for i, to := range []*int{&isl, &osl, &tp, &pp, &conc} {
		n, err := strconv.Atoi(m[i+1])
		if err != nil || n > maxCount {
			return 0, 0, 0, 0, 0, fmt.Errorf("%s in the cell key %s is larger than %d", clip(m[i+1]), quote(s), maxCount)
		}
		*to = n
	}
	return isl, osl, tp, pp, conc, nil
}

// cellKeyPart finds NAME=<digits> in keys that are almost right: any case, odd
// separators, signs that look like =.
var cellKeyPart = regexp.MustCompile(`(?i)([a-z]+)[^a-z0-9]{1,8}0*([0-9]{1,9})`)

// repairCellKey guesses which key was meant by one that is almost right, and
// says what is wrong with it. The guess takes what is missing from tp and pp.
func repairCellKey(s string, tp, pp int) (key, why string) {
	if len(s) > 200 {
		return "", ""
	}
	got := map[string]int{}
	for _, m := range cellKeyPart.FindAllStringSubmatch(s, -1) {
		got[strings.ToUpper(m[1])], _ = strconv.Atoi(m[2])
	}
	if got["ISL"] == 0 || got["OSL"] == 0 || got["CONC"] == 0 {
		return "", ""
	}
	why = "keys are compared byte for byte"
	if _, ok := got["PP"]; !ok {
		got["PP"], why = pp, "PP= is missing"
	}
	if _, ok := got["TP"]; !ok {
		got["TP"], why = tp, "TP= is missing"
	}
	if _, ok := got["NNODES"]; ok {
		why = "NNODES is not part of the key"
	} else if _, ok := got["DP"]; ok {
		why = "DP is not part of the key"
	}
	return CellKey(got["ISL"], got["OSL"], got["TP"], got["PP"], got["CONC"]), why
}

// A rule is a check of one text, with what it expects in words.
type rule struct {
	want string
	ok   func(string) bool
}

func pattern(want, re string) *rule {
	r := regexp.MustCompile("^(?:" + re + ")$")
	return &rule{want, r.MatchString}
}

// rules are the checks of names and texts that reach a command line, a path or
// a label. They are built once a load, not at start-up.
type rules struct {
	userName, host, container, image, envName, model, fileStem, pathPart, arch                  *rule
	absolute, volume, device, size, capability, ulimit, word, namespace, netdev, hca, flag, url *rule
	percentiles, percentileMetrics, sha256, text, nonBlank                                      *rule
	fraction, positive, rate                                                                    *rule
}

var (
	hostName = regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)
	dotted   = regexp.MustCompile(`^[0-9.]+$`)
)

// hostAddress reports whether s is a host name, an address, or one of them with a
// port; an IPv6 address with a port stands in brackets. Numbers and dots alone are
// an IPv4 address or a slip.
func hostAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	switch {
	case err != nil:
		host, port = s, "22"
		if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
			host = s[1 : len(s)-1]
		}
	case strings.Contains(host, ":") != strings.HasPrefix(s, "["):
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	if strings.Contains(host, ":") || dotted.MatchString(host) {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Zone() == "" && (addr.Is4() || strings.Contains(host, ":"))
	}
	return len(host) <= 253 && hostName.MatchString(host)
}

func newRules() *rules {
	r := &rules{
		userName:   pattern("a user name (letters, digits, _ . -; not starting with . or -)", `[A-Za-z0-9_][A-Za-z0-9._-]*`),
		host:       &rule{"a host name or address, or host:port", hostAddress},
		container:  pattern("a container name (a letter or digit, then at most 127 letters, digits, _ . -)", `[A-Za-z0-9][A-Za-z0-9_.-]{1,127}`),
		envName:    pattern("an environment variable name (letters, digits, _; not starting with a digit)", `[A-Za-z_][A-Za-z0-9_]*`),
		arch:       pattern("a GPU architecture such as mi325x (small letters, digits, _ -)", `[a-z0-9_-]+`),
		absolute:   pattern("an absolute path", `/[^\x00]*`),
		size:       pattern("a size such as 128G", `[0-9]+[bkmgBKMG]?`),
		capability: pattern("a capability such as SYS_PTRACE", `[A-Za-z_]+`),
		ulimit:     pattern("a limit such as memlock=-1 or nofile=1024:2048", `[a-z]+=-?[0-9]+(?::-?[0-9]+)?`),
		word:       pattern("one word that does not start with -", `[^-\s\x00-\x1f][^\s\x00-\x1f]*`),
		namespace:  pattern("host, none, the name of a docker network, or container:name", `[A-Za-z0-9][A-Za-z0-9_.-]*(?::[A-Za-z0-9][A-Za-z0-9_.-]*)?`),
		hca:        pattern("the name of an RDMA device such as mlx5_0", `[A-Za-z0-9][A-Za-z0-9_.:-]*`),
		flag:       pattern("a flag without its leading dashes", `[A-Za-z0-9_][A-Za-z0-9_.-]*`),
		url:        pattern("an http:// or https:// address without path", `https?://[A-Za-z0-9._\[\]:-]+/?`),
		sha256:     pattern("a SHA-256 (64 hexadecimal digits)", `(?:[0-9a-fA-F]{64})?`),
		fileStem: &rule{"a plain file name (letters, digits, blanks, _ . -; no path, not starting with . or -)", func(s string) bool {
			return len(s) <= 200 && !strings.ContainsAny(s[:1], ".- ") && !strings.ContainsFunc(s, func(c rune) bool {
				return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune(" _.-", c)
			})
		}},
		nonBlank: &rule{"a text that is not blank", func(s string) bool { return strings.TrimSpace(s) != "" }},
	}
	// The grammar of image references: [host[:port]/]path[:tag][@digest], small
	// letters in the path.
	const part = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
	image := pattern("", `(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?`+part+`(?:/`+part+`)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z0-9+.-]+:[0-9a-fA-F]{32,})?`)
	r.image = &rule{"an image reference such as rocm/atom-dev:latest", func(s string) bool { return len(s) <= 512 && image.ok(s) }}
	hub := pattern("", `[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?`)
	r.model = &rule{"a model id (org/name) or an absolute path, at most 512 bytes", func(s string) bool {
		if len(s) > 512 || hasControl(s) {
			return false
		}
		if strings.HasPrefix(s, "/") {
			return !slices.Contains(strings.Split(s, "/"), "..")
		}
		return hub.ok(s)
	}}
	r.pathPart = &rule{"a name that can be one part of a path (not blank, . or ..; no / and no control character; at most 128 bytes)", func(s string) bool {
		return strings.TrimSpace(s) != "" && s != "." && s != ".." && len(s) <= 128 && !strings.ContainsAny(s, "/\\\ufffd") && !hasControl(s)
	}}
	r.text = &rule{"text without NUL", func(s string) bool { return !strings.ContainsRune(s, 0) }}
	source := pattern("", `[/.].*|[A-Za-z0-9][A-Za-z0-9_.-]*`) // a path or the name of a volume
	const option = `(?:ro|rw|z|Z|nocopy|consistent|cached|delegated|r?(?:shared|slave|private))`
	mode := pattern("", option+`(?:,`+option+`)*`)
	r.volume = &rule{"a mount host:container or host:container:options with an absolute path in the container and options such as ro", func(s string) bool {
		parts := strings.Split(s, ":")
		return len(parts) >= 2 && len(parts) <= 3 && source.ok(parts[0]) && strings.HasPrefix(parts[1], "/") && (len(parts) == 2 || mode.ok(parts[2])) && !hasControl(s)
	}}
	r.device = &rule{"a device such as /dev/kfd", func(s string) bool { return strings.HasPrefix(s, "/dev/") && !hasControl(s) }}
	netdev := pattern("", `[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}`)
	rdma := pattern("", `(?i)(?:mlx[0-9]|rdma|roce|bnxt_re|irdma|ionic_[0-9]|hfi[0-9]|qedr|efa_[0-9]|ib(?:p|s)[0-9].*_rdma).*`)
	r.netdev = &rule{"an IP network interface such as eth0, not an RDMA device", func(s string) bool { return netdev.ok(s) && !rdma.ok(s) }}
	number := func(want string, ok func(float64) bool) *rule {
		return &rule{want, func(s string) bool {
			f, err := strconv.ParseFloat(s, 64)
			return strictjson.IsNumber(s) && err == nil && ok(f)
		}}
	}
	r.fraction = number("a number from 0 to 1", func(f float64) bool { return f >= 0 && f <= 1 })
	r.positive = number("a number above 0", func(f float64) bool { return f > 0 })
	r.rate = &rule{"a number above 0, or inf", func(s string) bool { return s == "inf" || r.positive.ok(s) }}
	r.percentiles = &rule{"percentiles above 0 and up to 100, separated by commas, such as 95,99", func(s string) bool {
		for _, p := range strings.Split(s, ",") {
			f, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
			if err != nil || !(f > 0 && f <= 100) {
				return false
			}
		}
		return true
	}}
	r.percentileMetrics = &rule{"a list of ttft, tpot, itl, e2el, separated by commas", func(s string) bool {
		for _, p := range strings.Split(s, ",") {
			if !slices.Contains([]string{"ttft", "tpot", "itl", "e2el"}, strings.TrimSpace(p)) {
				return false
			}
		}
		return true
	}}
	return r
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}
