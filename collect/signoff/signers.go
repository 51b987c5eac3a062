package signoff

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Why a signature is not accepted although it fits its entry.
var (
	// ErrUnknownSigner reports an identity that no line of the file names.
	ErrUnknownSigner = errors.New("unknown signer")
	// ErrWrongKey reports a known identity with a key that is not one of theirs.
	ErrWrongKey = errors.New("wrong key")
	// ErrKeyTime reports a key outside the time its line allows.
	ErrKeyTime = errors.New("key not valid at that time")
)

// Signers is an allowed-signers file, see ALLOWED SIGNERS in ssh-keygen(1).
type Signers struct {
	name  string
	lines []signerLine
}

type signerLine struct {
	line          int
	principals    string
	namespaces    string // "" allows any
	after, before time.Time
	key           ssh.PublicKey
}

// maxSigners bounds an allowed-signers file, in bytes.
const maxSigners = 4 << 20

// ParseSigners reads an allowed-signers file. Times without a zone are in loc,
// as ssh-keygen reads them. Every line that cannot be used is in the error:
// a signer that is silently dropped looks like one that was never there.
// Certificate authorities are not supported and refused.
func ParseSigners(name string, data []byte, loc *time.Location) (*Signers, error) {
	if len(data) > maxSigners {
		return nil, fmt.Errorf("%s: %d bytes, at most %d are read", name, len(data), maxSigners)
	}
	s := &Signers{name: name}
	var errs []error
	n := 0
	for raw := range bytes.Lines(data) {
		n++
		line := strings.TrimSpace(string(raw))
		if line == "" || line[0] == '#' {
			continue
		}
		l, err := parseSigner(line, loc)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, n, err))
			continue
		}
		l.line = n
		s.lines = append(s.lines, l)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(s.lines) == 0 {
		return nil, fmt.Errorf("%s: names no signer", name)
	}
	return s, nil
}

func parseSigner(line string, loc *time.Location) (signerLine, error) {
	var l signerLine
	rest := ""
	if line[0] == '"' {
		end := strings.IndexByte(line[1:], '"')
		if end < 0 {
			return l, errors.New("a quote is not closed")
		}
		l.principals, rest = line[1:1+end], line[2+end:]
	} else if i := strings.IndexAny(line, " \t"); i > 0 {
		l.principals, rest = line[:i], line[i:]
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(strings.TrimSpace(rest)))
	if err != nil || l.principals == "" {
		return l, errors.New("want: principals [options] keytype base64-key")
	}
	l.key = key
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "namespaces":
			l.namespaces = value
		case "valid-after":
			l.after, err = signerTime(value, loc)
		case "valid-before":
			l.before, err = signerTime(value, loc)
		case "cert-authority":
			err = errors.New("cert-authority is not supported; name the keys themselves")
		default:
			err = fmt.Errorf("unknown option %q", name)
		}
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

// signerTime reads YYYYMMDD[HHMM[SS]][Z].
func signerTime(s string, loc *time.Location) (time.Time, error) {
	text, utc := strings.CutSuffix(s, "Z")
	if utc {
		loc = time.UTC
	}
	layout, ok := map[int]string{8: "20060102", 12: "200601021504", 14: "20060102150405"}[len(text)]
	if !ok {
		return time.Time{}, fmt.Errorf("time %q: want YYYYMMDD[HHMM[SS]][Z]", s)
	}
	t, err := time.ParseInLocation(layout, text, loc)
	if err != nil {
		return t, fmt.Errorf("time %q: want YYYYMMDD[HHMM[SS]][Z]", s)
	}
	return t, nil
}

// Check reports whether key may sign as identity in namespace at a time. The
// error is or wraps ErrUnknownSigner, ErrWrongKey or ErrKeyTime.
func (s *Signers) Check(identity string, key ssh.PublicKey, namespace string, at time.Time) error {
	known := false
	var late error
	for _, l := range s.lines {
		if !matchPrincipals(l.principals, identity) || l.namespaces != "" && !matchPrincipals(l.namespaces, namespace) {
			continue
		}
		known = true
		if !bytes.Equal(l.key.Marshal(), key.Marshal()) {
			continue
		}
		switch {
		case !l.after.IsZero() && at.Before(l.after):
			late = fmt.Errorf("%w: %s:%d allows it from %s", ErrKeyTime, s.name, l.line, l.after.UTC().Format(time.RFC3339))
		case !l.before.IsZero() && at.After(l.before):
			late = fmt.Errorf("%w: %s:%d allows it until %s", ErrKeyTime, s.name, l.line, l.before.UTC().Format(time.RFC3339))
		default:
			return nil
		}
	}
	switch {
	case late != nil:
		return late
	case known:
		return fmt.Errorf("%w: %s is no key of %s in %s", ErrWrongKey, ssh.FingerprintSHA256(key), identity, s.name)
	}
	return fmt.Errorf("%w: %s is not in %s", ErrUnknownSigner, identity, s.name)
}

// Identities lists who the key may sign as: the principals without wildcards.
func (s *Signers) Identities(key ssh.PublicKey) []string {
	var out []string
	for _, l := range s.lines {
		if !bytes.Equal(l.key.Marshal(), key.Marshal()) {
			continue
		}
		for p := range strings.SplitSeq(l.principals, ",") {
			if p != "" && !strings.ContainsAny(p, "*?!") {
				out = append(out, p)
			}
		}
	}
	return out
}

// matchPrincipals is OpenSSH's match_pattern_list: a negated pattern that fits
// refuses, whatever else fits.
func matchPrincipals(list, name string) bool {
	ok := false
	for p := range strings.SplitSeq(list, ",") {
		p, not := strings.CutPrefix(p, "!")
		if !Glob(p, name) {
			continue
		}
		if not {
			return false
		}
		ok = true
	}
	return ok
}

// Glob reports whether text fits a pattern in which * stands for any text and ?
// for one character. Everything else stands for itself.
func Glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0: // let the last star take one more
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
