package bundle

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"cvs/collect/strictjson"
)

// A Redactor replaces what names people, machines and secrets by pseudonyms that
// are the same wherever the same thing stands: host-1 stays host-1 in the
// config, the records and the logs.
//
// Without a key the pseudonyms count up in the order of first sight, which says
// nothing of the originals. With a key that the lab keeps (HMAC-SHA256) they are
// also the same from bundle to bundle.
type Redactor struct {
	key   []byte
	known map[string]string // text → pseudonym
	count map[string]int    // by kind
	hosts []string          // exact names, longest first
	users []string
}

// NewRedactor makes a redactor; key may be nil.
func NewRedactor(key []byte) *Redactor {
	return &Redactor{key: key, known: map[string]string{}, count: map[string]int{}}
}

// Learn adds names of hosts and users to what is replaced as whole words.
// Names that are words of this suite (root, localhost, atom) are not replaced:
// they name nobody.
func (r *Redactor) Learn(hosts, users []string) {
	for _, h := range hosts {
		h, _, _ = strings.Cut(h, ":")
		if _, err := netip.ParseAddr(h); err == nil || !telling(h) {
			continue
		}
		r.hosts = append(r.hosts, h)
		if short, _, ok := strings.Cut(h, "."); ok && telling(short) {
			r.hosts = append(r.hosts, short)
		}
	}
	for _, u := range users {
		if telling(u) {
			r.users = append(r.users, u)
		}
	}
	for _, list := range []*[]string{&r.hosts, &r.users} {
		slices.SortFunc(*list, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		*list = slices.Compact(*list)
	}
}

func telling(name string) bool {
	common := []string{"", "root", "localhost", "atom", "vllm", "sglang", "perf", "default", "node", "host", "user", "lab", "test", "model", "vm"}
	return len(name) > 1 && !slices.Contains(common, strings.ToLower(name))
}

func (r *Redactor) pseudonym(kind, text string) string {
	id := kind + "\x00" + text
	if p, ok := r.known[id]; ok {
		return p
	}
	var p string
	if r.key != nil {
		m := hmac.New(sha256.New, r.key)
		m.Write([]byte(id))
		p = kind + "-" + hex.EncodeToString(m.Sum(nil)[:6])
	} else {
		r.count[kind]++
		p = fmt.Sprintf("%s-%d", kind, r.count[kind])
	}
	r.known[id] = p
	return p
}

// Secrets have a known shape; they are removed, not renamed: a pseudonym would
// tell that two of them are equal.
var (
	secrets = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)` +
		`|\b(?:hf_[A-Za-z0-9]{10,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|nvapi-[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})`)
	named   = regexp.MustCompile(`(?i)((?:token|password|passwd|secret|api[_-]?key)["']?\s*[=:]\s*["']?|bearer\s+)([A-Za-z0-9+/_.~-]{8,})`)
	keyPath = regexp.MustCompile(`(?:~|/)[^\s"'=,;:]*(?:/\.ssh/[^\s"',;:]+|/id_(?:rsa|dsa|ecdsa|ed25519)\b[^\s"',;:]*|\.pem\b|\.ppk\b)`)
	email   = regexp.MustCompile(`\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b`)
	atHost  = regexp.MustCompile(`\b([a-z_][a-z0-9_-]*)@(host-[0-9a-f]+|addr-[0-9a-f]+)\b`)
	homeDir = regexp.MustCompile(`(/home/|/Users/)([^/\s"',;:]+)`)
	ipv4    = regexp.MustCompile(`\b(?:\d{1,3}\.){3}\d{1,3}\b`)
	ipv6    = regexp.MustCompile(`(?i)\b[0-9a-f]{1,4}(?::[0-9a-f]{0,4}){2,7}(?:%[a-z0-9]+)?|::[0-9a-f]{1,4}\b`)
	mac     = regexp.MustCompile(`(?i)\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b`)
	isWord  = regexp.MustCompile(`[A-Za-z0-9_]`)
)

// WithoutSecrets takes tokens, passwords and private keys out of a text and
// leaves everything else: for readers who may see hosts and users.
func WithoutSecrets(s string) string {
	return named.ReplaceAllString(secrets.ReplaceAllString(s, "[secret]"), "${1}[secret]")
}

// Text redacts one piece of text.
func (r *Redactor) Text(s string) string { return r.text(s, true) }

// text leaves user names alone where they could be anything, such as the keys of
// an object.
func (r *Redactor) text(s string, users bool) string {
	s = WithoutSecrets(s)
	s = keyPath.ReplaceAllStringFunc(s, func(m string) string { return "/" + r.pseudonym("key-path", m) })
	s = email.ReplaceAllStringFunc(s, func(m string) string { return r.pseudonym("mail", m) })
	s = mac.ReplaceAllStringFunc(s, func(m string) string { return r.pseudonym("mac", strings.ToLower(m)) })
	s = ipv6.ReplaceAllStringFunc(s, r.address)
	s = ipv4.ReplaceAllStringFunc(s, r.address)
	for _, h := range r.hosts {
		s = r.word(s, h, "host")
	}
	s = homeDir.ReplaceAllStringFunc(s, func(m string) string {
		head, name, _ := strings.Cut(m[1:], "/")
		if !telling(name) || strings.HasPrefix(name, "user-") || strings.HasPrefix(name, "<") || strings.HasPrefix(name, "{") {
			return m
		}
		return "/" + head + "/" + r.pseudonym("user", name)
	})
	if users {
		for _, u := range r.users {
			s = r.word(s, u, "user")
		}
		s = atHost.ReplaceAllStringFunc(s, func(m string) string {
			name, host, _ := strings.Cut(m, "@")
			if !telling(name) || strings.HasPrefix(name, "user-") {
				return m
			}
			return r.pseudonym("user", name) + "@" + host
		})
	}
	return s
}

func (r *Redactor) address(m string) string {
	bare, _, _ := strings.Cut(m, "%")
	a, err := netip.ParseAddr(bare)
	if err != nil || a.IsLoopback() || a.IsUnspecified() {
		return m
	}
	return r.pseudonym("addr", a.Unmap().String())
}

// word replaces name where it is no part of a longer word.
func (r *Redactor) word(s, name, kind string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, name)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := i + len(name)
		if i > 0 && isWord.MatchString(s[i-1:i]) || end < len(s) && isWord.MatchString(s[end:end+1]) {
			b.WriteString(s[:end])
		} else {
			b.WriteString(s[:i] + r.pseudonym(kind, name))
		}
		s = s[end:]
	}
}

// userKeys and secretKeys are members whose whole value is known to be that,
// whatever it looks like.
func userKey(name string) bool {
	return slices.Contains([]string{"user", "username", "user_name", "owner", "launcher_user"}, strings.ToLower(name))
}

func secretKey(name string) bool {
	n := strings.ToLower(name)
	return strings.Contains(n, "password") || strings.Contains(n, "secret") || strings.HasSuffix(n, "_token") || n == "token" || strings.HasSuffix(n, "api_key")
}

func keyFileKey(name string) bool {
	n := strings.ToLower(name)
	return strings.Contains(n, "priv_key") || strings.Contains(n, "private_key") || strings.HasSuffix(n, "key_file") || strings.HasSuffix(n, "token_file")
}

// JSON redacts the texts of a JSON document in place; numbers and everything
// else keep their bytes. What is no JSON document is redacted as text.
func (r *Redactor) JSON(data []byte) []byte {
	v, _, err := strictjson.Parse(data, strictjson.Options{NonFinite: true, KeepDuplicates: true})
	if err != nil {
		return []byte(r.Text(string(data)))
	}
	var out []byte
	at := 0
	put := func(from, to int, text string) {
		out = append(out, data[at:from]...)
		out = append(out, quote(text)...)
		at = to
	}
	var walk func(v *strictjson.Value, member string)
	walk = func(v *strictjson.Value, member string) {
		switch v.Kind {
		case strictjson.String:
			text := v.Text
			switch {
			case text == "":
			case secretKey(member) && !strings.ContainsAny(text, "<{"):
				text = "[secret]"
			case keyFileKey(member) && !strings.ContainsAny(text, "<{"):
				text = "/" + r.pseudonym("key-path", text)
			case userKey(member) && telling(text) && !strings.ContainsAny(text, "<{"):
				text = r.pseudonym("user", text)
			default:
				text = r.Text(text)
			}
			if text != v.Text {
				put(v.Offset, v.End, text)
			}
		case strictjson.Array:
			for _, item := range v.Items {
				walk(item, member)
			}
		case strictjson.Object:
			for _, m := range v.Members {
				if name := r.text(m.Name, false); name != m.Name {
					put(m.Offset, m.Offset+keyLen(data[m.Offset:]), name)
				}
				walk(m.Value, m.Name)
			}
		}
	}
	walk(v, "")
	return append(out, data[at:]...)
}

// keyLen is the length of the quoted text that data starts with.
func keyLen(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < 0x20:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
