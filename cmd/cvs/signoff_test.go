package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cvs/collect/artifact"
)

var signoffDay = time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)

// A reviewRun is a run directory with two cells: conc1 passes, conc2 fails its
// throughput gate. Tier ttft of both is wholly vacuous if asked for.
type reviewRun struct {
	id, driver string
	vacuous    bool
	enforce    bool
}

func (r reviewRun) write(t *testing.T, root string) string {
	t.Helper()
	started := signoffDay.Add(-24 * time.Hour)
	d, err := artifact.Create(root, artifact.Meta{
		RunID: r.id, Suite: "atom", Profile: "perf", StartedAt: &started, ToolVersion: "t", Enforce: r.enforce, Launcher: artifact.Launcher{User: "carol", Host: "launchbox"},
		Identity: artifact.Identity{Model: "deepseek-r1", Precision: "fp8", GPUArch: "mi325x", Driver: r.driver, TP: 8, PP: 1, DP: 1, NNodes: 1, Hosts: []string{"gpu-node-17"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var e artifact.Expected
	var th artifact.Thresholds
	ttft := 20.0
	if r.vacuous {
		ttft = 1000000
	}
	for _, conc := range []int{1, 2} {
		key := fmt.Sprintf("ISL=1024,OSL=128,TP=8,PP=1,CONC=%d", conc)
		e.Cells = append(e.Cells, artifact.ExpectedCell{Key: key, ID: fmt.Sprintf("a-conc%d", conc), Combo: "a", ISL: 1024, OSL: 128, Concurrency: conc, NumPrompts: 10, Repeats: 1})
		for metric, limit := range map[string]float64{"output_throughput": 90 * float64(conc) * float64(conc), "mean_ttft_ms": ttft, "mean_tpot_ms": 15, "failed": 0} {
			kind := "max_ms"
			switch metric {
			case "output_throughput":
				kind = "min"
			case "failed":
				kind = "max"
			}
			th.Specs = append(th.Specs, artifact.Threshold{Scope: "cell", Target: key, Metric: metric, Kind: kind, Value: &limit, File: "t.json", Line: 1})
		}
	}
	for _, err := range []error{d.WriteExpected(e), d.WriteThresholds(th), d.WriteConfig(map[string]string{"m": "1"}), d.WriteCluster(map[string]string{"username": "carol"})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range e.Cells {
		w, err := d.CellDir(i+1, c, 1)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"date": "20260909-120000", "backend": "vllm", "model_id": "deepseek-r1", "num_prompts": 10, "max_concurrency": %d, "duration": 10.5, "completed": 10,
 "total_input_tokens": 10240, "total_output_tokens": 1280, "request_throughput": 1.0, "request_goodput:": null, "output_throughput": %d, "total_token_throughput": 900.5,
 "mean_ttft_ms": 10.5, "mean_tpot_ms": 10.25, "mean_itl_ms": 10.0, "mean_e2el_ms": 1000.0}`, c.Concurrency, 100*c.Concurrency)
		for _, f := range [][3]string{{"results.json", "result", text}, {"server.log", "server_log", strings.Repeat("gpu-node-17 ready\n", 100)}} {
			if _, err := w.WriteFile(f[0], f[1], "", strings.NewReader(f[2])); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.WriteRecord(artifact.Record{CellKey: c.Key, CellID: c.ID, Repeat: 1, Host: "gpu-node-17", Driver: r.driver, Status: artifact.Done}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(artifact.Done, "", started.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path(), deckName), []byte("<p>the deck that was read</p>"), 0o644); err != nil {
		t.Fatal(err)
	}
	return d.Path()
}

// A reviewDesk runs commands in process, with a clock of its own.
type reviewDesk struct {
	t   *testing.T
	dir string
	now time.Time
	env map[string]string
}

// cvs runs one command and returns exit status and everything it printed.
func (d *reviewDesk) cvs(args ...string) (int, string) {
	d.t.Helper()
	var out bytes.Buffer
	e := &env{
		stdin: strings.NewReader(""), stdout: &out, stderr: &out, getenv: func(k string) string { return d.env[k] },
		now: func() time.Time { return d.now }, osUser: func() string { return "carol" },
	}
	root := newRoot(e)
	for _, c := range []*cobra.Command{newBundle(e), newVerify(e), newReplay(e), newSignoff(e), newWaivers(e), newRelease(e)} {
		if found, _, err := root.Find([]string{c.Name()}); err != nil || found == root {
			root.AddCommand(c)
		}
	}
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(&out, message(err))
	}
	return exitCode(err), out.String()
}

// want runs a command and checks exit status and text.
func (d *reviewDesk) want(code int, text string, args ...string) string {
	d.t.Helper()
	got, out := d.cvs(args...)
	if got != code || !strings.Contains(out, text) {
		d.t.Fatalf("cvs %s\nexit %d, want %d; want text %q in:\n%s", strings.Join(args, " "), got, code, text, out)
	}
	return out
}

func (d *reviewDesk) file(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

func (d *reviewDesk) edit(file, old, new string) {
	d.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), old) {
		d.t.Fatalf("%s: %q is not in it (%v)", file, old, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(data), old, new, 1)), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func newDesk(t *testing.T) *reviewDesk {
	t.Helper()
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("ssh-keygen is not installed")
		}
		t.Skip("ssh-keygen is not installed")
	}
	d := &reviewDesk{t: t, dir: t.TempDir(), now: signoffDay, env: map[string]string{}}
	allowed := ""
	for _, who := range []string{"alice", "bob", "eve"} {
		key := filepath.Join(d.dir, who)
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-C", who, "-f", key).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %s", out)
		}
		pub, err := os.ReadFile(key + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		if who != "eve" {
			allowed += who + "@example.com " + string(pub)
		}
	}
	d.file("allowed", allowed)
	d.file("waivers.json", `{"format": "cvs-waivers@v1", "waivers": [
 {"id": "W-1", "cell": "a-conc2", "metric": "output_throughput", "reason": "known", "owner": "alice", "issue": "https://example.com/1", "expires": "2026-09-30"}]}`)
	d.file("policy.json", `{"format": "cvs-policy@v1", "title": "1.0 rc1",
 "signoff": {"approvals": 2, "roles": ["performance", "release manager"], "checklist": ["deck read"], "not_launcher": true},
 "release": {"max_age_days": 30, "need_signoff": true, "allow_waived": true, "require": [
  {"name": "native", "model": "deepseek*", "driver": "atom"}, {"name": "plugin", "driver": "vllm_atom"}]}}`)
	return d
}

func (d *reviewDesk) at(name string) string { return filepath.Join(d.dir, name) }

// TestReleaseReview is the whole walk: three runs, one waived failure, two
// reviewers, approve, verify with ssh-keygen, then one byte of everything.
func TestReleaseReview(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	one := reviewRun{id: "r1", driver: "atom", enforce: true}.write(t, d.dir)
	two := reviewRun{id: "r2", driver: "vllm_atom", enforce: true}.write(t, d.dir)
	old := reviewRun{id: "r0", driver: "sglang", enforce: true}.write(t, d.dir)
	who := []string{"--allowed-signers", d.at("allowed"), "--policy", d.at("policy.json")}
	with := func(args ...string) []string { return append(args, who...) }

	d.want(1, "output_throughput fails and is not waived", with("signoff", one, "--decision", "approve", "--role", "performance", "--key", d.at("alice"), "--confirm", "deck read")...)
	out := d.want(0, "fail (waived)", "waivers", "check", d.at("waivers.json"), one, two)
	if !strings.Contains(out, "verdict FAIL (waivers do not change it); failed: 1, of which waived: 1") {
		t.Errorf("a waiver changed the verdict:\n%s", out)
	}
	d.want(0, "entry 1", with("signoff", one, two, "--decision", "approve", "--role", "performance", "--key", d.at("alice"), "--confirm", "deck read", "--waivers", d.at("waivers.json"))...)
	d.want(1, "1 of 2 approvals", with("signoff", "status", one)...)
	d.want(3, "no run with driver vllm_atom", with("release", "check", one)...)
	d.want(1, "sign-off: pending", with("release", "check", one, two)...)
	d.want(0, "entry 2", with("signoff", one, two, "--decision", "approve", "--role", "release manager", "--key", d.at("bob"), "--confirm", "deck read")...)
	d.want(0, "APPROVED", with("signoff", "status", one, two)...)
	d.want(0, "release: READY", with("release", "check", one, two, old)...)
	d.want(0, "chain and signatures hold", "signoff", "verify", one, "--allowed-signers", d.at("allowed"))
	d.want(0, "READY", with("release", "deck", "-o", d.at("release.html"), one, two, old)...)
	d.says("release.html", "1.0 rc1: READY", "required-table", "fail (waived)", `href="./r1/atom_run_deck.html"`, "none recorded", "no requirement asks for it", "alice@example.com (performance)")
	d.want(1, "FAIL", "deck", one, "-o", d.at("one.html"))
	d.says("one.html", "approved by alice@example.com (performance), bob@example.com (release manager)", "1 of 1 failed gate", "fail (waived)", "In use since")
	store := d.at("store.duckdb")
	d.want(0, "loaded", "load", one, two, old, "--warehouse", store)
	// A query is answered as the command is: nobody is known until the keys are given.
	ask := []string{"sql", "SELECT verdict, reasons FROM release_check($policy, NULL, TIMESTAMP '2026-09-10') WHERE scope = $scope", "--param", "policy=" + readFile(t, d.at("policy.json")), "--warehouse", store}
	d.want(0, "the signers were not checked", append(ask, "--param", "scope=requirement")...)
	d.want(0, "BLOCKED", append(ask, "--param", "scope=release")...)
	d.want(0, "replaced", with("load", one, two, old, "--warehouse", store)...)
	d.want(0, "READY", append(ask, "--param", "scope=release")...)
	d.want(0, "index", "publish", "--all", "--to", d.at("shelf"), "--warehouse", store)
	d.says("shelf/runs/r1/atom_run_deck.html", "approved by alice@example.com (performance), bob@example.com (release manager)")
	d.want(1, "of those that fail 1 waived", "evaluate", "r1", "--warehouse", store)
	d.want(0, "approved", "sql", "SELECT state FROM signoff_state('2026-09-10') WHERE run_id = 'r1'", "--warehouse", store)

	for seq, name := range map[int]string{1: "alice", 2: "bob"} {
		entry := filepath.Join(one, "signoff", fmt.Sprintf("%04d.json", seq))
		cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", d.at("allowed"), "-I", name+"@example.com", "-n", "cvs-signoff@v1", "-s", entry+".sig")
		data, err := os.ReadFile(entry)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = bytes.NewReader(data)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("ssh-keygen: %s", out)
		}
	}

	bundleFile := d.at("release.cvsz")
	d.want(0, "3 runs", "bundle", one, two, old, "-o", bundleFile)
	d.want(0, "approved", "verify", bundleFile, "--allowed-signers", d.at("allowed"))

	d.edit(filepath.Join(one, "cells/001-a-conc1/1/results.json"), "10.5", "10.4")
	d.edit(filepath.Join(one, "thresholds.json"), `"value": 90`, `"value": 80`)
	d.edit(filepath.Join(one, "signoff/waivers.json"), "2026-09-30", "2027-09-30")
	for _, args := range [][]string{with("signoff", "status", one), {"verify", one}} {
		out := d.want(3, "cells/001-a-conc1/1/results.json changed", args...)
		for _, want := range []string{"output_throughput is min 80, signed was min 90", "waiver W-1 changed: it is cell a-conc2, metric output_throughput, until 2027-09-30"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %q:\n%s", args, want, out)
			}
		}
	}
	d.want(3, "INCOMPLETE", "deck", one, "-o", d.at("stale.html"))
	d.says("stale.html", "STALE", "cells/001-a-conc1/1/results.json changed", "output_throughput is min 80, signed was min 90", "waiver W-1 changed: it is cell a-conc2")
	d.want(0, "index", "publish", "r1", "--to", d.at("shelf"), "--warehouse", store)
	d.says("shelf/runs/r1/atom_run_deck.html", "STALE", "cells/001-a-conc1/1/results.json changed")
	d.want(3, "conflict", "load", one, "--warehouse", store)
	d.want(3, "changed after the run closed", with("signoff", one, "--decision", "approve", "--role", "performance", "--key", d.at("alice"), "--confirm", "deck read")...)
	d.want(1, "sign-off: stale", with("release", "check", one, two)...)
}

// says checks that a page holds texts.
func (d *reviewDesk) says(page string, texts ...string) {
	d.t.Helper()
	data, err := os.ReadFile(d.at(page))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, text := range texts {
		if !strings.Contains(string(data), text) {
			d.t.Errorf("%s does not say %q", page, text)
		}
	}
}

// TestLostDecision: a log that was cut at its end, together with the copies that
// would show it, is refused by the warehouse and shown in the deck made from it.
func TestLostDecision(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := reviewRun{id: "r1", driver: "atom", enforce: true}.write(t, d.dir)
	sign := func(who string) {
		d.want(0, "reject by", "signoff", run, "--decision", "reject", "--role", "performance", "--key", d.at(who), "--identity", who)
	}
	sign("alice")
	log := filepath.Join(run, "signoff", "log.jsonl")
	short, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	sign("bob")
	store := d.at("store.duckdb")
	d.want(0, "loaded", "load", run, "--warehouse", store)
	if err := os.WriteFile(log, short, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0002.json", "0002.json.sig"} {
		if err := os.Remove(filepath.Join(run, "signoff", name)); err != nil {
			t.Fatal(err)
		}
	}
	d.want(0, "hold", "signoff", "verify", run) // nothing in the folder shows it
	d.want(3, "shorter than the stored one: entry 2 by bob is gone", "load", run, "--warehouse", store)
	d.want(1, "FAIL", "deck", "r1", "--warehouse", store, "-o", d.at("deck.html"))
	d.says("deck.html", "TAMPERED", "the warehouse holds entry 2 (bob), which the log no longer has")
	if err := os.RemoveAll(filepath.Join(run, "signoff")); err != nil {
		t.Fatal(err)
	}
	d.want(3, "entry 1 by alice is gone", "load", run, "--warehouse", store)
	sign("eve")
	d.want(3, "entry 1 by alice was edited or replaced", "load", run, "--warehouse", store)
}

// TestSignoffRefusals: every refusal says which rule, and nothing is signed.
func TestSignoffRefusals(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	good := reviewRun{id: "r1", driver: "atom", enforce: true}.write(t, d.dir)
	vacuous := reviewRun{id: "r2", driver: "atom", enforce: true, vacuous: true}.write(t, d.dir)
	record := reviewRun{id: "r3", driver: "atom"}.write(t, d.dir)
	base := func(run, key string, more ...string) []string {
		return append([]string{"signoff", run, "--role", "performance", "--key", d.at(key), "--waivers", d.at("waivers.json"), "--allowed-signers", d.at("allowed")}, more...)
	}
	approve := []string{"--decision", "approve"}
	late := *d
	late.now = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		desk *reviewDesk
		code int
		want string
		args []string
	}{
		"unknown signer":   {d, 2, "unknown signer", base(good, "eve", approve...)},
		"wrong key":        {d, 2, "wrong key", base(good, "eve", append(approve, "--identity", "bob@example.com")...)},
		"vacuous tier":     {d, 1, "tier ttft of a-conc1 is wholly vacuous", base(vacuous, "alice", approve...)},
		"vacuous anyway":   {d, 1, "wholly vacuous", base(vacuous, "alice", "--decision", "conditional", "--condition", "calibrate")},
		"expired waiver":   {&late, 1, "waiver W-1 expired on 2026-09-30", base(good, "alice", approve...)},
		"record only":      {d, 1, "gates nothing", base(record, "alice", approve...)},
		"no decision":      {d, 2, "want approve, reject, conditional", base(good, "alice")},
		"no condition":     {d, 2, "needs --condition", base(good, "alice", "--decision", "conditional")},
		"checklist":        {d, 2, `the policy wants --confirm "deck read"`, base(good, "alice", append(approve, "--policy", d.at("policy.json"))...)},
		"unknown item":     {d, 2, "no such item", base(good, "alice", append(approve, "--policy", d.at("policy.json"), "--confirm", "deck red")...)},
		"no such run":      {d, 2, "is no run directory", base(d.at("nothing"), "alice", approve...)},
		"no key":           {d, 2, "--key", base(good, "nobody", approve...)},
		"one of two fails": {d, 1, "nothing was signed", append(base(good, "alice", approve...), vacuous)},
	} {
		t.Run(name, func(t *testing.T) {
			desk := *tc.desk
			desk.t = t
			desk.want(tc.code, tc.want, tc.args...)
		})
	}
	for _, run := range []string{good, vacuous, record} {
		if _, err := os.Stat(filepath.Join(run, "signoff", "log.jsonl")); err == nil {
			t.Errorf("%s: something was signed", run)
		}
	}
	// Rejecting is always possible, and stands.
	d.want(0, "reject by alice@example.com", base(vacuous, "alice", "--decision", "reject")...)
	d.want(1, "REJECTED", "signoff", "status", vacuous)
	d.edit(filepath.Join(vacuous, "signoff/log.jsonl"), `"decision":"reject"`, `"decision":"approve"`)
	d.want(3, "TAMPERED", "signoff", "status", vacuous)
	d.want(3, "was changed after it was written", base(vacuous, "bob", "--decision", "reject")...)
	d.want(3, "does not fit the entry", "signoff", "verify", vacuous)
}

// TestWaiversDoNotTurnGreen: a waiver is a report beside the verdict.
func TestWaiversDoNotTurnGreen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := reviewRun{id: "r1", driver: "atom", enforce: true}.write(t, d.dir)
	code, out := d.cvs("waivers", "check", d.at("waivers.json"), run, "--format", "json")
	var r waiverReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit %d, %v:\n%s", code, err, out)
	}
	if r.Runs[0].Verdict != "FAIL" || len(r.Runs[0].Waived) != 1 || r.Runs[0].Waived[0].State != "fail" {
		t.Errorf("got %+v", r.Runs[0])
	}
	d.now = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	d.want(1, "expired    waiver W-1", "waivers", "check", d.at("waivers.json"), run)
	d.file("two.json", `{"format": "cvs-waivers@v1", "waivers": [
 {"id": "W-2", "cell": "a-conc1", "metric": "output_throughput", "reason": "r", "owner": "o", "issue": "https://example.com/1", "expires": "2027-09-30"},
 {"id": "W-3", "cell": "a-conc9", "metric": "*", "reason": "r", "owner": "o", "issue": "https://example.com/1", "expires": "2027-09-30"}]}`)
	out = d.want(1, "not waived", "waivers", "check", d.at("two.json"), run)
	for _, want := range []string{"remove     waiver W-2", "unmatched  waiver W-3"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
}

func TestBundle(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := reviewRun{id: "r1", driver: "atom", enforce: true}.write(t, d.dir)
	loose := filepath.Join("testdata", "real", "results")
	for name, args := range map[string][]string{
		"run and loose results, logs cut": {run, loose, "--max-log", "64"}, "redacted": {run, "--redact"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk := *d
			desk.t, desk.dir = t, t.TempDir()
			a, b := desk.at("a.cvsz"), desk.at("b.cvsz")
			// what the decks are compared with goes along, and is used again
			desk.want(1, "FAIL", "deck", run, "-o", desk.at("x.html"), "--json", desk.at("prev.json"))
			desk.env = map[string]string{"CVS_INFERENCE_PREV_REPORT_JSON": desk.at("prev.json")}
			desk.want(0, "files", append([]string{"bundle", "-o", a}, args...)...)
			desk.want(0, "files", append([]string{"bundle", "-o", b}, args...)...)
			x, err := os.ReadFile(a)
			if err != nil {
				t.Fatal(err)
			}
			if y, err := os.ReadFile(b); err != nil || !bytes.Equal(x, y) {
				t.Errorf("packing twice gives other bytes (%v)", err)
			}
			out := desk.want(0, "every row as recorded", "verify", a)
			if !strings.Contains(out, "byte for byte") || strings.Contains(out, "DIFFERS") {
				t.Errorf("verify says:\n%s", out)
			}
			desk.env = map[string]string{}
			desk.want(0, "cvs.duckdb", "replay", a, "-o", desk.at("replayed"))
			if deck, err := os.ReadFile(filepath.Join(desk.at("replayed"), "r1", deckName)); name != "redacted" && (err != nil || bytes.Contains(deck, []byte("no earlier comparable run"))) {
				t.Errorf("the replayed deck is compared with nothing (%v)", err)
			}
			desk.want(2, "is not empty", "replay", a, "-o", desk.at("replayed"))
			if name == "redacted" {
				pack, err := zip.OpenReader(a)
				if err != nil {
					t.Fatal(err)
				}
				defer pack.Close()
				for _, f := range pack.File {
					data, err := fs.ReadFile(pack, f.Name)
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range []string{"carol", "gpu-node-17", "launchbox"} {
						if bytes.Contains(data, []byte(s)) {
							t.Errorf("%s still says %s", f.Name, s)
						}
					}
				}
				data, err := os.ReadFile(filepath.Join(desk.at("replayed"), "r1", deckName))
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range []string{"carol", "gpu-node-17", "launchbox"} {
					if bytes.Contains(data, []byte(s)) {
						t.Errorf("the deck still says %s", s)
					}
				}
			}
		})
	}
}

// TestVerifyNamesChanges changes an unpacked bundle in one place at a time.
func TestVerifyNamesChanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := reviewRun{id: "r1", driver: "atom", enforce: true}.write(t, d.dir)
	file := d.at("a.cvsz")
	d.want(0, "1 runs", "bundle", run, "-o", file)
	type edit struct{ file, old, new, want string }
	for name, edits := range map[string][]edit{
		"raw result": {{"runs/r1/cells/001-a-conc1/1/results.json", `"output_throughput": 100`, `"output_throughput": 999`, "not used"}},
		"threshold":  {{"runs/r1/thresholds.json", `"value": 90`, `"value": 10`, "gates r1 ISL=1024,OSL=128,TP=8,PP=1,CONC=1 gpu-node-17 throughput output_throughput wanted is 10, recorded was 90"}},
		"what was recorded": {
			{"views/run_status.jsonl", `"headline": "FAIL"`, `"headline": "PASS"`, `run_status r1 headline is "FAIL", recorded was "PASS"`},
			{"decks/r1/" + deckName, "deepseek", "deepsheep", "decks/r1/" + deckName + ": differs from byte"},
			{"warehouse/threshold.jsonl", `"value": 90`, `"value": 91`, "recorded was 91"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk := *d
			desk.t, desk.dir = t, t.TempDir()
			dir, _, done, err := openBundle(context.Background(), file)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			for _, x := range edits {
				desk.edit(filepath.Join(dir, x.file), x.old, x.new)
			}
			out := desk.want(3, edits[0].want, "verify", dir)
			for _, x := range edits {
				for _, want := range []string{x.want, "DIFFERS hashes    " + x.file} {
					if !strings.Contains(out, want) {
						t.Errorf("verify does not say %q:\n%s", want, out)
					}
				}
			}
		})
	}
	d.file("junk.cvsz", "no zip")
	d.want(3, "junk.cvsz", "verify", d.at("junk.cvsz"))
	d.want(2, "neither a bundle nor a run directory", "verify", d.dir)
}

func TestCompareThresholds(t *testing.T) {
	t.Parallel()
	before, after := &judgement{}, &judgement{}
	r := &thresholdReport{}
	r.diff(gateList(before), gateList(after))
	if r.Same != 0 || len(r.Gates) != 0 {
		t.Errorf("nothing compared with nothing: %+v", r)
	}
	was := []gateLine{{gateAt{"cell", "a", "", "m"}, "pass >= 1", "2", false, true}, {gateAt{"cell", "b", "", "m"}, "pass >= 1", "2", false, true}, {gateAt{"cell", "c", "", "m"}, "FAIL >= 3", "2", true, true}}
	now := []gateLine{{gateAt{"cell", "a", "", "m"}, "pass >= 1", "2", false, true}, {gateAt{"cell", "b", "", "m"}, "FAIL >= 3", "2", true, true}, {gateAt{"cell", "d", "", "m"}, "pass >= 1", "2", false, true}}
	r.diff(was, now)
	if r.Same != 1 || len(r.Gates) != 3 || !r.Gates[0].Flips || r.Gates[1].Now != "" || !r.Gates[1].Flips || r.Gates[2].Was != "" || r.Gates[2].Flips {
		t.Errorf("got %d same and %+v", r.Same, r.Gates)
	}
}

// TestLockedKey: without agent and terminal a key with a passphrase is refused
// with what to do, and nothing is signed.
func TestLockedKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := reviewRun{id: "r1", driver: "atom", enforce: true}.write(t, d.dir)
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-a", "1", "-N", "open sesame", "-f", d.at("locked")).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %s", out)
	}
	out := d.want(2, "no terminal to ask for it: add the key to an SSH agent", "signoff", run, "--decision", "reject", "--role", "performance", "--identity", "alice", "--key", d.at("locked"))
	if strings.Contains(out, "sesame") {
		t.Errorf("the passphrase is in the message:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(run, "signoff", "log.jsonl")); err == nil {
		t.Error("something was signed")
	}
}
