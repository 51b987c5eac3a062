package signoff

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"cvs/collect/artifact"
	"cvs/warehouse"
)

var start = time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)

// newRun makes a small closed run directory.
func newRun(t *testing.T) string {
	t.Helper()
	d, err := artifact.Create(t.TempDir(), artifact.Meta{RunID: "r1", Suite: "atom", StartedAt: &start, Launcher: artifact.Launcher{User: "carol"}})
	if err != nil {
		t.Fatal(err)
	}
	cell := artifact.ExpectedCell{Key: "ISL=1,OSL=1,TP=1,PP=1,CONC=1", ID: "a-conc1", Combo: "a", Concurrency: 1}
	limit := 100.0
	for _, err := range []error{
		d.WriteConfig(map[string]int{"a": 1}), d.WriteCluster(map[string]int{"b": 1}),
		d.WriteExpected(artifact.Expected{Cells: []artifact.ExpectedCell{cell}}),
		d.WriteThresholds(artifact.Thresholds{Specs: []artifact.Threshold{{Scope: "cell", Target: cell.Key, Metric: "output_throughput", Kind: "min", Value: &limit}}}),
		d.AddInput("thresholds", "t.json", []byte("{}")), d.AddInput("config", "c.json", []byte("{}")),
		d.WriteAccuracy("gsm8k", "results.json", []byte(`{"x":1}`)), d.WriteCheck([]byte("ok"), "dmesg", "n1.txt"),
		d.Close(artifact.Done, "", start.Add(time.Hour)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return d.Path()
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func allow(t *testing.T, people map[string]ssh.Signer) *Signers {
	t.Helper()
	var b strings.Builder
	for who, key := range people {
		b.WriteString(who + ` namespaces="cvs-signoff@v1" ` + string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	}
	s, err := ParseSigners("allowed", []byte(b.String()), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func entry(who string, d Decision) Entry {
	e := Entry{RunID: "r1", Decision: d, Role: "performance", Identity: who, Time: start.Add(24 * time.Hour), Tool: "test"}
	if d == Conditional {
		e.Conditions = []string{"rerun after the fix"}
	}
	return e
}

func sign(t *testing.T, dir string, e Entry, key ssh.Signer) *Record {
	t.Helper()
	s := survey(t, dir)
	e.Evidence = s.Evidence()
	r, err := Append(dir, e, s, key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func survey(t *testing.T, dir string) *State {
	t.Helper()
	s, err := Survey(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func log(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := ReadLog(dir, "r1")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func edit(t *testing.T, file string, change func(string) string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(change(string(data))), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A stand is what the views say of a run's sign-off, with the findings they
// were given.
type stand struct {
	State    string
	Reasons  []string
	Findings []artifact.DecisionFinding
}

// status loads the run and asks the views two days after it started. The runs of
// these tests measured nothing, which the policy allows: what is under test is
// the decision.
func status(t *testing.T, dir string, p *Policy, allowed *Signers) stand {
	t.Helper()
	return statusAt(t, dir, p, allowed, start.Add(48*time.Hour))
}

func statusAt(t *testing.T, dir string, p *Policy, allowed *Signers, at time.Time) stand {
	t.Helper()
	lenient := Policy{}
	if p != nil {
		lenient = *p
	}
	lenient.Signoff.AllowRecord, lenient.Signoff.AllowPartial = true, true
	r, err := artifact.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Decisions, err = Read(dir, "r1", Against{Policy: &lenient, Allowed: allowed}); err != nil {
		t.Fatal(err)
	}
	db, err := warehouse.Open(t.Context(), "", warehouse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Load(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s, err := db.SignoffState(t.Context(), "r1", at)
	if err != nil {
		t.Fatal(err)
	}
	return stand{s.State, s.Reasons(), r.Decisions.Findings}
}

// TestEvidenceIsTheManifest holds the list of evidence and the run directory's
// own manifest together.
func TestEvidenceIsTheManifest(t *testing.T) {
	t.Parallel()
	dir := newRun(t)
	data, err := os.ReadFile(filepath.Join(dir, "MANIFEST.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	s := survey(t, dir)
	all := Listing{}
	for _, l := range []Listing{s.Raw, s.Thresholds} {
		for k, v := range l {
			all[k] = v
		}
	}
	if got := string(all.Bytes()); got != string(data) {
		t.Errorf("evidence is\n%s\nthe manifest covers\n%s", got, data)
	}
	if len(s.Thresholds) != 2 {
		t.Errorf("thresholds are %v, want thresholds.json and its input", s.Thresholds)
	}
}

func TestSSHKeygenVerifies(t *testing.T) {
	t.Parallel()
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("ssh-keygen is not installed")
		}
		t.Skip("ssh-keygen is not installed")
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		t.Fatal(err)
	}
	rsaSigner, err := ssh.NewSignerFromKey(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]ssh.Signer{"ed25519": newKey(t), "rsa": rsaSigner} {
		dir := newRun(t)
		rec := sign(t, dir, entry("alice@example.com", Approve), key)
		allowed := filepath.Join(t.TempDir(), "allowed")
		if err := os.WriteFile(allowed, []byte("alice@example.com "+string(ssh.MarshalAuthorizedKey(key.PublicKey()))), 0o644); err != nil {
			t.Fatal(err)
		}
		verify := func(identity string) error {
			cmd := exec.Command(keygen, "-Y", "verify", "-f", allowed, "-I", identity, "-n", Namespace, "-s", filepath.Join(dir, Folder, "0001.json.sig"))
			cmd.Stdin = bytes.NewReader(rec.Signed)
			return cmd.Run()
		}
		if err := verify("alice@example.com"); err != nil {
			t.Errorf("%s: ssh-keygen refuses our signature: %v", name, err)
		}
		if err := verify("bob@example.com"); err == nil {
			t.Errorf("%s: ssh-keygen accepts it for somebody else", name)
		}
	}
}

// TestSSHKeygenSigns checks the other direction: what ssh-keygen signs, we verify.
func TestSSHKeygenSigns(t *testing.T) {
	t.Parallel()
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("ssh-keygen is not installed")
		}
		t.Skip("ssh-keygen is not installed")
	}
	key, msg := filepath.Join(t.TempDir(), "k"), filepath.Join(t.TempDir(), "m")
	if err := os.WriteFile(msg, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-q", "-t", "ecdsa", "-N", "", "-f", key}, {"-q", "-Y", "sign", "-f", key, "-n", Namespace, msg}} {
		if out, err := exec.Command(keygen, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	sig, err := os.ReadFile(msg + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifySignature([]byte("hello"), string(sig)); err != nil {
		t.Error(err)
	}
	if _, err := verifySignature([]byte("hallo"), string(sig)); err == nil {
		t.Error("another text verifies")
	}
}

func TestTamperedLog(t *testing.T) {
	t.Parallel()
	alice, bob, carol := newKey(t), newKey(t), newKey(t)
	for name, tc := range map[string]struct {
		change func(string) string
		want   string
	}{
		"edited":    {func(s string) string { return strings.Replace(s, `"decision":"reject"`, `"decision":"approve"`, 1) }, "the signature does not fit the entry"},
		"removed":   {func(s string) string { l := strings.SplitAfter(s, "\n"); return l[0] + l[2] }, "entry 3 stands where entry 2 is expected"},
		"reordered": {func(s string) string { l := strings.SplitAfter(s, "\n"); return l[1] + l[0] + l[2] }, "entry 2 stands where entry 1 is expected"},
		"cut short": {func(s string) string { l := strings.SplitAfter(s, "\n"); return l[0] + l[1] }, "0003.json is there, but log.jsonl has no such entry"},
		"cut off":   {func(s string) string { return strings.TrimSuffix(s, "\n") }, "the line is cut off"},
		"signature moved": {func(s string) string {
			l := strings.SplitAfter(s, "\n")
			var a, b line
			if json.Unmarshal([]byte(l[0]), &a) != nil || json.Unmarshal([]byte(l[1]), &b) != nil {
				return ""
			}
			a.Signature = b.Signature
			text, _ := json.Marshal(a)
			return string(text) + "\n" + l[1] + l[2]
		}, "the signature does not fit the entry"},
		"two keys":    {func(s string) string { return strings.Replace(s, `{"entry":`, `{"entry":{},"entry":`, 1) }, "occurs twice"},
		"reformatted": {func(s string) string { return strings.Replace(s, `,"signature":`, `, "signature":`, 1) }, "not written as cvs writes it"},
		"emptied":     {func(string) string { return "" }, "it was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newRun(t)
			sign(t, dir, entry("alice", Approve), alice)
			sign(t, dir, entry("bob", Reject), bob)
			sign(t, dir, entry("carol", Approve), carol)
			if l := log(t, dir); len(l.Findings) > 0 {
				t.Fatalf("untouched log: %v", l.Findings)
			}
			edit(t, filepath.Join(dir, Folder, logFile), tc.change)
			l := log(t, dir)
			if !slices.ContainsFunc(l.Findings, func(f Finding) bool { return strings.Contains(f.String(), tc.want) }) {
				t.Errorf("findings are %v, want one with %q", l.Findings, tc.want)
			}
			if s := status(t, dir, nil, nil); s.State != StateTampered {
				t.Errorf("state is %s, want tampered", s.State)
			}
			st := survey(t, dir)
			if _, err := Append(dir, entry("dave", Approve), st, newKey(t)); !errors.Is(err, ErrTampered) {
				t.Errorf("appending to it gives %v, want ErrTampered", err)
			}
		})
	}
}

// TestForgedChain re-signs an entry in the middle with its author's key: the
// chain shows it although every signature is good.
func TestForgedChain(t *testing.T) {
	t.Parallel()
	alice, bob := newKey(t), newKey(t)
	dir, other := newRun(t), newRun(t)
	sign(t, dir, entry("alice", Approve), alice)
	sign(t, dir, entry("bob", Approve), bob)
	e := entry("alice", Approve)
	e.Note = "something else"
	sign(t, other, e, alice)
	forged, err := os.ReadFile(filepath.Join(other, Folder, logFile))
	if err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(dir, Folder, logFile), func(s string) string { return string(forged) + strings.SplitAfter(s, "\n")[1] })
	if l := log(t, dir); !slices.ContainsFunc(l.Findings, func(f Finding) bool { return strings.Contains(f.Msg, "line 1 was edited or replaced") }) {
		t.Errorf("findings are %v", l.Findings)
	}
}

func TestSignerRefusals(t *testing.T) {
	t.Parallel()
	alice, bob, eve := newKey(t), newKey(t), newKey(t)
	allowed := allow(t, map[string]ssh.Signer{"alice": alice, "bob": bob})
	dir := newRun(t)
	sign(t, dir, entry("eve", Approve), eve)
	sign(t, dir, entry("alice", Approve), eve)
	s := status(t, dir, nil, allowed)
	var codes []string
	for _, f := range s.Findings {
		codes = append(codes, f.Code)
	}
	if want := []string{"unknown_signer", "wrong_key"}; !slices.Equal(codes, want) {
		t.Errorf("codes are %v, want %v", codes, want)
	}
	if s.State != StatePending {
		t.Errorf("state is %s, want pending", s.State)
	}
	if s := status(t, dir, nil, nil); !strings.Contains(strings.Join(s.Reasons, "\n"), "the signers were not checked") {
		t.Errorf("without a file the reasons are %v", s.Reasons)
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	alice := newKey(t)
	allowed := allow(t, map[string]ssh.Signer{"alice": alice})
	const waivers = `{"format":"cvs-waivers@v1","waivers":[{"id":"W1","cell":"*","metric":"p99_ttft_ms","reason":"r","owner":"o","issue":"https://example.com/1","expires":"2026-12-31"}]}`
	for name, tc := range map[string]struct {
		change func(dir string)
		want   string // "": still approved
	}{
		"nothing": {func(string) {}, ""},
		"raw": {func(dir string) {
			edit(t, filepath.Join(dir, "accuracy/gsm8k/results.json"), func(s string) string { return s + " " })
		}, "raw data: accuracy/gsm8k/results.json changed"},
		"added":   {func(dir string) { _ = os.WriteFile(filepath.Join(dir, "checks", "new.json"), nil, 0o644) }, "raw data: checks/new.json was added"},
		"missing": {func(dir string) { _ = os.Remove(filepath.Join(dir, "checks/dmesg/n1.txt")) }, "raw data: checks/dmesg/n1.txt is missing"},
		"threshold": {func(dir string) {
			edit(t, filepath.Join(dir, "thresholds.json"), func(s string) string { return strings.Replace(s, "100", "10", 1) })
		}, "output_throughput is min 10, signed was min 100"},
		"threshold file": {func(dir string) {
			edit(t, filepath.Join(dir, "inputs/thresholds-t.json"), func(s string) string { return s + "\n" })
		}, "inputs/thresholds-t.json changed"},
		"waiver": {func(dir string) {
			_ = KeepWaivers(dir, []byte(strings.Replace(waivers, "2026-12-31", "2027-12-31", 1)))
		}, "waiver W1 changed: it is cell *, metric p99_ttft_ms, until 2027-12-31"},
		"waivers gone": {func(dir string) { _ = os.Remove(filepath.Join(dir, Folder, waiversFile)) }, "signoff/waivers.json is gone"},
		"list gone": {func(dir string) {
			edit(t, filepath.Join(dir, "run.json"), func(s string) string { return s + "\n" })
			_ = os.RemoveAll(filepath.Join(dir, Folder, evidenceDir))
		}, "the files cannot be named"},
		"notes": {func(dir string) { _ = os.WriteFile(filepath.Join(dir, "notes.md"), []byte("later"), 0o644) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newRun(t)
			if err := KeepWaivers(dir, []byte(waivers)); err != nil {
				t.Fatal(err)
			}
			sign(t, dir, entry("alice", Approve), alice)
			tc.change(dir)
			s := status(t, dir, nil, allowed)
			if tc.want == "" {
				if s.State != StateApproved {
					t.Errorf("state is %s (%v), want approved", s.State, s.Reasons)
				}
				return
			}
			if s.State != StateStale || !strings.Contains(strings.Join(s.Reasons, "\n"), tc.want) {
				t.Errorf("state is %s with %q, want stale with %q", s.State, s.Reasons, tc.want)
			}
		})
	}
}

func TestExpiredSinceSigning(t *testing.T) {
	t.Parallel()
	alice := newKey(t)
	dir := newRun(t)
	e := entry("alice", Approve)
	e.Waivers = []UsedWaiver{{ID: "W1", Expires: "2026-09-02", Gates: 1}}
	sign(t, dir, e, alice)
	allowed := allow(t, map[string]ssh.Signer{"alice": alice})
	at := func(day int) stand {
		return statusAt(t, dir, nil, allowed, time.Date(2026, 9, day, 23, 59, 0, 0, time.UTC))
	}
	if s := at(2); s.State != StateApproved {
		t.Errorf("on its last day: %s %v", s.State, s.Reasons)
	}
	if s := at(3); s.State != StateStale || !strings.Contains(s.Reasons[0], "waiver W1 expired on 2026-09-02") {
		t.Errorf("the day after: %s %v", s.State, s.Reasons)
	}
}

func TestPolicyRules(t *testing.T) {
	t.Parallel()
	alice, bob, carol := newKey(t), newKey(t), newKey(t)
	allowed := allow(t, map[string]ssh.Signer{"alice": alice, "bob": bob, "carol": carol})
	two := &Policy{Signoff: Rules{Approvals: 2, Roles: []string{"performance", "release manager"}, Checklist: []string{"deck read"}, NotLauncher: true}}
	rm := func(e Entry) Entry { e.Role = "release manager"; return e }
	done := func(e Entry) Entry { e.Checklist = []string{"deck read"}; return e }
	type signed struct {
		e   Entry
		key ssh.Signer
	}
	for name, tc := range map[string]struct {
		entries []signed
		policy  *Policy
		state   string
		want    string
	}{
		"none":             {nil, two, StateNone, ""},
		"one of two":       {[]signed{{done(entry("alice", Approve)), alice}}, two, StatePending, "1 of 2 approvals"},
		"two":              {[]signed{{done(entry("alice", Approve)), alice}, {rm(done(entry("bob", Approve))), bob}}, two, StateApproved, ""},
		"same person":      {[]signed{{done(entry("alice", Approve)), alice}, {rm(done(entry("alice", Approve))), alice}}, two, StatePending, "1 of 2 approvals"},
		"role missing":     {[]signed{{done(entry("alice", Approve)), alice}, {done(entry("bob", Approve)), bob}}, two, StatePending, `no approval in the role "release manager"`},
		"checklist":        {[]signed{{entry("alice", Approve), alice}, {rm(done(entry("bob", Approve))), bob}}, two, StatePending, `"deck read" was not confirmed`},
		"launcher":         {[]signed{{done(entry("carol", Approve)), carol}, {rm(done(entry("bob", Approve))), bob}}, two, StatePending, "carol started the run"},
		"rejected":         {[]signed{{done(entry("alice", Approve)), alice}, {rm(done(entry("bob", Reject))), bob}}, two, StateRejected, "bob (release manager) rejects"},
		"rejection lifted": {[]signed{{done(entry("bob", Reject)), bob}, {done(entry("alice", Approve)), alice}, {rm(done(entry("bob", Approve))), bob}}, two, StateApproved, ""},
		"conditional":      {[]signed{{entry("alice", Conditional), alice}}, nil, StateConditional, "condition of alice: rerun after the fix"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newRun(t)
			for _, x := range tc.entries {
				sign(t, dir, x.e, x.key)
			}
			s := status(t, dir, tc.policy, allowed)
			if s.State != tc.state || !strings.Contains(strings.Join(s.Reasons, "\n"), tc.want) {
				t.Errorf("state is %s with %q, want %s with %q", s.State, s.Reasons, tc.state, tc.want)
			}
		})
	}
}

func TestAllowedSigners(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	pub := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		line string
		who  string
		want error
	}{
		"plain":           {"a@x " + pub, "a@x", nil},
		"list":            {"b@x,a@x " + pub + " comment", "a@x", nil},
		"pattern":         {"*@x " + pub, "a@x", nil},
		"negated":         {"*@x,!a@x " + pub, "a@x", ErrUnknownSigner},
		"quoted":          {`"a@x" ` + pub, "a@x", nil},
		"namespace":       {`a@x namespaces="git,cvs-signoff@v1" ` + pub, "a@x", nil},
		"other namespace": {`a@x namespaces="git" ` + pub, "a@x", ErrUnknownSigner},
		"not yet":         {`a@x valid-after="20260701Z" ` + pub, "a@x", ErrKeyTime},
		"no longer":       {`a@x valid-before="202605010000Z" ` + pub, "a@x", ErrKeyTime},
		"in time":         {`a@x valid-after="20260101Z",valid-before="20270101Z" ` + pub, "a@x", nil},
		"somebody else":   {"b@x " + pub, "a@x", ErrUnknownSigner},
		"another key":     {"a@x " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(newKey(t).PublicKey()))), "a@x", ErrWrongKey},
	} {
		s, err := ParseSigners("f", []byte("# comment\n\n"+tc.line+"\n"), time.UTC)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := s.Check(tc.who, key.PublicKey(), Namespace, at); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	for _, bad := range []string{"", "a@x", "a@x nonsense", "a@x cert-authority " + pub, `a@x valid-after="soon" ` + pub, `a@x strange="1" ` + pub, `"a@x ` + pub} {
		if _, err := ParseSigners("f", []byte(bad), time.UTC); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
