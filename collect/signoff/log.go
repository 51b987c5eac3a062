package signoff

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	// flock: two reviewers may sign the same run at once.
	"github.com/gofrs/flock"
	// renameio: the log is replaced whole, so it never ends in half an entry.
	"github.com/google/renameio/v2"
	// sshsig writes and reads PROTOCOL.sshsig; it is a thin layer on x/crypto/ssh.
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"cvs/collect/strictjson"
)

// The names inside <run directory>/signoff/.
const (
	Folder      = "signoff"
	logFile     = "log.jsonl"
	waiversFile = "waivers.json" // the waivers in force for the run
	evidenceDir = "evidence"     // what the hashes of the entries stand for
	lockFile    = ".lock"
)

// Bounds on what is read, in bytes.
const (
	maxLog  = 64 << 20
	maxLine = 1 << 20
)

// A Record is one line of the log.
type Record struct {
	Line      int // in the file, from 1
	Entry     Entry
	Signed    []byte // exactly what was signed
	Signature string // armored
	Hash      string // SHA-256 of the line without its line feed, hex
	sig       *sshsig.Signature
}

// Key is the public key the signature names; nil if the signature is damaged.
func (r Record) Key() ssh.PublicKey {
	if r.sig == nil {
		return nil
	}
	return r.sig.PublicKey
}

// A Finding is one thing that is wrong with a log.
type Finding struct {
	Line int    `json:"line"` // 0: of the log as a whole
	Seq  int    `json:"seq"`  // 0: unknown
	Code string `json:"code"` // damaged, chain, signature, wrong_key, unknown_signer, key_time, run
	Msg  string `json:"msg"`
}

// String is one line for people.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Msg
	}
	return fmt.Sprintf("%s line %d: %s", logFile, f.Line, f.Msg)
}

// A Log is the sign-off log of one run.
type Log struct {
	Dir      string // the run directory
	Records  []Record
	Findings []Finding // what is wrong with file and chain, whoever signed
}

// Head is the hash of the last line; kept elsewhere, it shows that nothing was
// cut off the end. "" for an empty log.
func (l *Log) Head() string {
	if len(l.Records) == 0 {
		return ""
	}
	return l.Records[len(l.Records)-1].Hash
}

// line is the form of a record in the file.
type line struct {
	Entry     json.RawMessage `json:"entry"`
	Signature string          `json:"signature"`
}

// ReadLog reads the log of the run in dir; one that is not there is empty. It
// checks the chain and every signature against the key that it names; whose key
// that is says [Log.Signed].
func ReadLog(dir, runID string) (*Log, error) {
	l := &Log{Dir: dir}
	data, err := readFile(dir, filepath.Join(Folder, logFile), maxLog)
	if errors.Is(err, fs.ErrNotExist) {
		l.leftovers()
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read sign-off log: %w", err)
	}
	n, prev := 0, ""
	for raw := range bytes.Lines(data) {
		n++
		text, whole := bytes.CutSuffix(raw, []byte{'\n'})
		hash := sum(text)
		rec, code, err := parseLine(text)
		rec.Line, rec.Hash = n, hash
		bad := func(code, format string, args ...any) {
			l.Findings = append(l.Findings, Finding{n, rec.Entry.Seq, code, fmt.Sprintf(format, args...)})
		}
		switch {
		case !whole:
			bad("damaged", "the line is cut off")
		case err != nil:
			bad(code, "%v", err)
		}
		if err == nil || code == "signature" {
			e := rec.Entry
			switch {
			case e.Seq != n:
				bad("chain", "entry %d stands where entry %d is expected: an entry was removed, added or moved", e.Seq, n)
			case e.Prev != prev:
				bad("chain", "entry %d was signed after a line with SHA-256 %s; the line before it has %s: line %d was edited or replaced", e.Seq, short(e.Prev), short(prev), n-1)
			}
			if e.RunID != runID {
				bad("run", "entry %d is about run %s, this is run %s", e.Seq, e.RunID, runID)
			}
			l.Records = append(l.Records, rec)
		}
		prev = hash
	}
	l.leftovers()
	return l, nil
}

func short(hash string) string {
	if hash == "" {
		return "none"
	}
	if len(hash) < 12 {
		return hash
	}
	return hash[:12] + "…"
}

// parseLine decodes one line; the code says what an error means.
func parseLine(text []byte) (Record, string, error) {
	var rec Record
	if len(text) > maxLine {
		return rec, "damaged", fmt.Errorf("%d bytes, at most %d are read", len(text), maxLine)
	}
	if _, _, err := strictjson.Parse(text, strictjson.Options{MaxBytes: maxLine}); err != nil {
		return rec, "damaged", err
	}
	var ln line
	if err := json.Unmarshal(text, &ln); err != nil {
		return rec, "damaged", err
	}
	rec.Signed, rec.Signature = ln.Entry, ln.Signature
	var err error
	if rec.Entry, err = decodeEntry(ln.Entry); err != nil {
		return rec, "damaged", err
	}
	// Only the one form that was written hashes and signs the same everywhere.
	if again, err := json.Marshal(line{ln.Entry, ln.Signature}); err != nil || !bytes.Equal(again, text) {
		return rec, "damaged", errors.New("the line is not written as cvs writes it")
	}
	if rec.sig, err = verifySignature(ln.Entry, ln.Signature); err != nil {
		return rec, "signature", fmt.Errorf("entry %d (%s): %w", rec.Entry.Seq, rec.Entry.Identity, err)
	}
	if got := ssh.FingerprintSHA256(rec.sig.PublicKey); got != rec.Entry.Key {
		return rec, "signature", fmt.Errorf("entry %d (%s): it says key %s, the signature was made by %s", rec.Entry.Seq, rec.Entry.Identity, rec.Entry.Key, got)
	}
	return rec, "", nil
}

func verifySignature(signed []byte, armored string) (*sshsig.Signature, error) {
	sig, err := sshsig.Unarmor([]byte(armored))
	if err != nil {
		return nil, fmt.Errorf("no OpenSSH signature: %w", err)
	}
	if sig.Namespace != Namespace {
		return nil, fmt.Errorf("the signature is for %q, not for %q", sig.Namespace, Namespace)
	}
	if err := sshsig.Verify(bytes.NewReader(signed), sig, sig.PublicKey, sig.HashAlgorithm, Namespace); err != nil {
		return nil, errors.New("the signature does not fit the entry: the entry was edited, or it was signed by another key")
	}
	return sig, nil
}

// leftovers compares the copies for ssh-keygen with the log: they outlive an
// entry that was cut off the end.
func (l *Log) leftovers() {
	byName := map[string][]byte{}
	for _, r := range l.Records {
		byName[entryName(r.Entry.Seq)] = r.Signed
	}
	names, err := filepath.Glob(filepath.Join(l.Dir, Folder, "[0-9][0-9][0-9][0-9].json"))
	if err != nil {
		return // the pattern is ours
	}
	for _, path := range names {
		name := filepath.Base(path)
		want, ok := byName[name]
		data, err := readFile(l.Dir, filepath.Join(Folder, name), maxLine)
		switch {
		case !ok:
			l.Findings = append(l.Findings, Finding{Code: "chain", Msg: fmt.Sprintf("%s/%s is there, but %s has no such entry: it was removed", Folder, name, logFile)})
		case err != nil || !bytes.Equal(data, want):
			l.Findings = append(l.Findings, Finding{Code: "chain", Msg: fmt.Sprintf("%s/%s is not the entry that %s holds", Folder, name, logFile)})
		}
	}
}

func entryName(seq int) string { return fmt.Sprintf("%04d.json", seq) }

// Signed checks whose keys made the signatures. Without an allowed-signers file
// (nil) nobody is known, and it reports nothing.
func (l *Log) Signed(allowed *Signers) []Finding {
	if allowed == nil {
		return nil
	}
	var out []Finding
	for _, r := range l.Records {
		if r.sig == nil {
			continue // said by ReadLog
		}
		err := allowed.Check(r.Entry.Identity, r.sig.PublicKey, Namespace, r.Entry.Time)
		if err == nil {
			continue
		}
		code := "unknown_signer"
		switch {
		case errors.Is(err, ErrWrongKey):
			code = "wrong_key"
		case errors.Is(err, ErrKeyTime):
			code = "key_time"
		}
		out = append(out, Finding{r.Line, r.Entry.Seq, code, fmt.Sprintf("entry %d (%s): %v", r.Entry.Seq, r.Entry.Identity, err)})
	}
	return out
}

// ErrTampered reports a log that was changed after it was written. Nothing is
// appended to one: a later signature must not vouch for it.
var ErrTampered = errors.New("the sign-off log was changed after it was written")

// Append signs e and adds it to the log of the run directory dir. Seq, Prev, Key
// and Format are set here. The entry and its signature also go to
// signoff/<seq>.json and .json.sig, as ssh-keygen -Y verify wants them. State is
// what the evidence hashes stand for; it is kept so that a later change can be
// named precisely.
func Append(dir string, e Entry, state *State, signer ssh.Signer) (*Record, error) {
	folder := filepath.Join(dir, Folder)
	if err := os.MkdirAll(filepath.Join(folder, evidenceDir), 0o755); err != nil {
		return nil, fmt.Errorf("append sign-off: %w", err)
	}
	lock := flock.New(filepath.Join(folder, lockFile))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("append sign-off: lock: %w", err)
	}
	defer lock.Close()
	l, err := ReadLog(dir, e.RunID)
	if err != nil {
		return nil, err
	}
	if len(l.Findings) > 0 {
		return nil, fmt.Errorf("append sign-off: %w: %s", ErrTampered, l.Findings[0])
	}
	e.Format, e.Seq, e.Prev, e.Key = entryFormat, len(l.Records)+1, l.Head(), ssh.FingerprintSHA256(signer.PublicKey())
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("append sign-off: %w", err)
	}
	signed, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("append sign-off: %w", err)
	}
	sig, err := sshsig.Sign(bytes.NewReader(signed), signer, sshsig.HashSHA512, Namespace)
	if err != nil {
		return nil, fmt.Errorf("append sign-off: sign: %w", err)
	}
	text, err := json.Marshal(line{signed, string(sshsig.Armor(sig))})
	if err != nil {
		return nil, fmt.Errorf("append sign-off: %w", err)
	}
	rec, _, err := parseLine(text) // what we cannot verify we do not store
	if err != nil {
		return nil, fmt.Errorf("append sign-off: the fresh signature does not verify: %w", err)
	}
	rec.Line, rec.Hash = e.Seq, sum(text)
	if err := state.keep(folder); err != nil {
		return nil, fmt.Errorf("append sign-off: %w", err)
	}
	old, err := readFile(dir, filepath.Join(Folder, logFile), maxLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("append sign-off: %w", err)
	}
	// The log last: what it names must be there.
	for _, f := range []struct {
		name string
		data []byte
	}{
		{entryName(e.Seq) + ".sig", []byte(rec.Signature)},
		{logFile, append(append(old, text...), '\n')},
		{entryName(e.Seq), signed},
	} {
		if err := renameio.WriteFile(filepath.Join(folder, f.name), f.data, 0o644, renameio.WithTempDir(folder)); err != nil {
			return nil, fmt.Errorf("append sign-off: %w", err)
		}
	}
	return &rec, nil
}

// readFile reads a regular file of a directory, never through a link that leads
// out of it.
func readFile(dir, name string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	fi, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	if fi.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", name, fi.Size(), limit)
	}
	return root.ReadFile(name)
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
