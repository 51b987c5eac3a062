package artifact

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var t0 = time.Date(2026, 8, 31, 2, 0, 0, 123456789, time.UTC)

var cells = []ExpectedCell{
	{Key: "ISL=1024,OSL=1024,TP=8,PP=1,CONC=16", ID: "a-conc16", Combo: "a", ISL: 1024, OSL: 1024, Concurrency: 16},
	{Key: "ISL=1024,OSL=1024,TP=8,PP=1,CONC=32", ID: "../b-conc32", Combo: "../b", ISL: 1024, OSL: 1024, Concurrency: 32},
}

// writeRun writes a small run directory, without closing it.
func writeRun(t *testing.T) *Dir {
	t.Helper()
	d, err := Create(t.TempDir(), Meta{RunID: "r1", Suite: "atom", Profile: "perf", StartedAt: &t0, Identity: Identity{Model: "m", TP: 8}})
	must(t, err)
	must(t, d.AddInput("config", "dir/mi325x.json", []byte("{\"as\": \"written\"}\n")))
	must(t, d.WriteConfig(json.RawMessage(`{"a":1}`)))
	must(t, d.WriteCluster(map[string]int{"n": 1}))
	v := 5.0
	must(t, d.WriteThresholds(Thresholds{Specs: []Threshold{{Scope: "cell", Metric: "output_throughput", Kind: "min", Value: &v}}}))
	must(t, d.WriteExpected(Expected{Cells: cells, Tasks: []ExpectedTask{{Kind: "accuracy", ID: "gsm8k/5"}}}))
	seq, err := d.AppendStage(Stage{Stage: "start", Started: t0, Status: Running})
	must(t, err)
	_, err = d.AppendStage(Stage{Seq: seq, Stage: "start", Started: t0, Ended: &t0, Status: Done})
	must(t, err)
	_, err = d.AppendStage(Stage{Stage: "cells", Started: t0, Status: Running})
	must(t, err)
	for i, c := range cells {
		cd, err := d.CellDir(i+1, c, 1)
		must(t, err)
		_, err = cd.WriteFile("results.json", "result", "", strings.NewReader(fmt.Sprintf("{\"output_throughput\": %d}\r\n", i+1)))
		must(t, err)
		_, err = cd.WriteFile("client.log", "client_log", "", strings.NewReader("log\n"))
		must(t, err)
		must(t, cd.WriteRecord(Record{CellKey: c.Key, CellID: c.ID, Repeat: 1, Host: "h1", Status: Done}))
	}
	must(t, d.WriteAccuracy("gsm8k/5", "results_2026.json", []byte(`{"results":{}}`)))
	must(t, d.WriteCheck([]byte("[]"), "niah", "x/../y.json"))
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir string) *Run {
	t.Helper()
	run, err := Read(dir)
	must(t, err)
	return run
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	d := writeRun(t)
	must(t, d.UpdateMeta(func(m *Meta) { m.Identity.GPUSeen = "MI325X" }))
	must(t, d.Close(Done, "", t0.Add(time.Hour)))
	must(t, d.Close(Failed, "again", t0))
	must(t, os.WriteFile(filepath.Join(d.Path(), "notes.md"), []byte("# ok"), 0o644))
	must(t, os.WriteFile(filepath.Join(d.Path(), "atom_run_deck.html"), []byte("x"), 0o644))

	run := read(t, d.Path())
	if len(run.Problems) > 0 {
		t.Errorf("problems of a whole run: %+v", run.Problems)
	}
	if run.Meta.Status != Done || run.Meta.Identity.GPUSeen != "MI325X" || run.Meta.FormatVersion != FormatVersion {
		t.Errorf("meta = %+v", run.Meta)
	}
	if d := cmp.Diff(cells, run.Expected.Cells); d != "" {
		t.Error(d)
	}
	if len(run.Stages) != 2 || run.Stages[0].Status != Done || run.Stages[1].Status != Running {
		t.Errorf("stages = %+v", run.Stages)
	}
	if len(run.Results) != 2 {
		t.Fatalf("%d results, want 2", len(run.Results))
	}
	second := run.Results[1]
	if string(second.Data) != "{\"output_throughput\": 2}\r\n" || second.CellKey != cells[1].Key || second.Record == nil || second.Host != "h1" {
		t.Errorf("result = %+v", second)
	}
	if want := "cells/002-%2E.%2Fb-conc32/1/results.json"; second.Path != want {
		t.Errorf("path = %s, want %s", second.Path, want)
	}
	if len(run.Accuracy) != 1 || run.Accuracy[0].CellKey != "gsm8k/5" {
		t.Errorf("accuracy = %+v", run.Accuracy)
	}
	if len(run.Checks) != 1 || run.Checks[0].CellKey != "niah/x%2F..%2Fy.json" {
		t.Errorf("checks = %+v", run.Checks)
	}
	in := run.Meta.Inputs
	if len(in) != 1 || in[0].Path != "dir/mi325x.json" || in[0].Bytes != 18 {
		t.Errorf("inputs = %+v", in)
	}
	if run.Notes != "# ok" || !strings.Contains(string(run.Config), `"a"`) || len(run.Thresholds.Specs) != 1 {
		t.Errorf("notes %q, config %s, thresholds %+v", run.Notes, run.Config, run.Thresholds)
	}
	ps, err := Verify(d.Path())
	if err != nil || len(ps) > 0 {
		t.Errorf("Verify = %v, %v", ps, err)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	d := writeRun(t)
	must(t, d.Close(Done, "", t0))
	at := func(name string) string { return filepath.Join(d.Path(), name) }
	must(t, os.WriteFile(at("thresholds.json"), []byte(`{"specs":[]}`), 0o644))
	must(t, os.Remove(at("cluster.json")))
	must(t, os.WriteFile(at("checks/new\nline.json"), nil, 0o644))
	must(t, os.WriteFile(at("cells/001-a-conc16/1/client.log"), []byte("gol\n"), 0o644))
	ps, err := Verify(d.Path())
	must(t, err)
	var got []string
	for _, p := range ps {
		word, _, _ := strings.Cut(p.Msg, " ")
		got = append(got, p.Path+": "+word)
	}
	want := []string{"cells/001-a-conc16/1/client.log: changed", "checks/new\nline.json: not", "cluster.json: missing", "thresholds.json: changed"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, id := range []string{"", ".", "..", "a/b", "../x", "a\x00", ".hidden", strings.Repeat("x", 300)} {
		if d, err := Create(root, Meta{RunID: id}); err == nil {
			t.Errorf("run id %q was accepted at %s", id, d.Path())
		}
	}
	d, err := Create(root, Meta{RunID: "r"})
	must(t, err)
	if _, err := Create(root, Meta{RunID: "r"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second Create: %v, want fs.ErrExist", err)
	}
	if _, err := Open(d.Path()); !errors.Is(err, ErrInUse) {
		t.Errorf("Open of a directory in use: %v, want ErrInUse", err)
	}
	must(t, d.Close(Failed, "x", t0))
}

// A resumed run appends after a torn line, keeps what the first attempt of a
// cell left, and is verified as a whole.
func TestResume(t *testing.T) {
	t.Parallel()
	d := writeRun(t)
	must(t, d.Close(Interrupted, "user", t0))
	f, err := os.OpenFile(filepath.Join(d.Path(), stagesFile), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"seq":3,"stage":"to`)
	must(t, err)
	must(t, f.Close())

	d, err = Open(d.Path())
	must(t, err)
	seq, err := d.AppendStage(Stage{Stage: "cells", Started: t0, Status: Done})
	must(t, err)
	if seq != 3 {
		t.Errorf("seq = %d, want 3, after the two whole ones", seq)
	}
	cd, err := d.CellDir(1, cells[0], 1)
	must(t, err)
	_, err = cd.WriteFile("results.json", "result", "", strings.NewReader("{}"))
	must(t, err)
	must(t, cd.WriteRecord(Record{CellKey: cells[0].Key, Repeat: 1, Status: Done}))
	must(t, d.Close(Done, "", t0))

	run := read(t, d.Path())
	if len(run.Problems) != 1 || run.Problems[0].Path != stagesFile {
		t.Errorf("problems = %+v, want the torn line only", run.Problems)
	}
	if len(run.Stages) != 3 || len(run.Results) != 2 || string(run.Results[0].Data) != "{}" {
		t.Errorf("%d stages, results %+v", len(run.Stages), run.Results)
	}
	if len(run.Superseded) != 1 || !strings.Contains(string(run.Superseded[0].Data), `"output_throughput": 1`) {
		t.Errorf("superseded = %+v", run.Superseded)
	}
	if ps, err := Verify(d.Path()); err != nil || len(ps) > 0 {
		t.Errorf("Verify = %v, %v", ps, err)
	}
}

func TestStagesConcurrently(t *testing.T) {
	t.Parallel()
	d, err := Create(t.TempDir(), Meta{RunID: "r"})
	must(t, err)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for range 10 {
				if _, err := d.AppendStage(Stage{Stage: fmt.Sprint(g), Started: t0, Status: Done}); err != nil {
					t.Error(err)
				}
			}
			if err := d.UpdateMeta(func(m *Meta) { m.Warnings = append(m.Warnings, fmt.Sprint(g)) }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, d.Close(Done, "", t0))
	run := read(t, d.Path())
	if len(run.Stages) != 40 || len(run.Meta.Warnings) != 4 {
		t.Errorf("%d stages, %d warnings", len(run.Stages), len(run.Meta.Warnings))
	}
	if _, err := d.AppendStage(Stage{Stage: "late", Started: t0}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("append after Close: %v", err)
	}
}

type failing struct{ after io.Reader }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.after.Read(p)
	if err == io.EOF {
		err = errors.New("connection lost")
	}
	return n, err
}

func TestRawFileWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	d := writeRun(t)
	cd, err := d.CellDir(1, cells[0], 2)
	must(t, err)
	if _, err := cd.WriteFile("results.json", "result", "", failing{strings.NewReader("{")}); err == nil {
		t.Error("a fetch that broke off was accepted")
	}
	if _, err := cd.WriteFile("record.json", "result", "", strings.NewReader("{}")); err == nil {
		t.Error("a raw file took the record's name")
	}
	left, err := os.ReadDir(cd.Path())
	must(t, err)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSafeName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 500)
	inputs := []string{"", "%", ".", "..", "%2E", "%2E.", "a", "a/b", "a%2Fb", "a\x00b", "a b", "-", "a.", "a", ".json",
		long, long + "x", strings.Repeat("a", 200), strings.Repeat("a", 201), `..\..\x`, "con:"}
	slices.Sort(inputs)
	inputs = slices.Compact(inputs)
	seen := map[string]string{}
	for _, in := range inputs {
		checkSafe(t, in)
		if other, dup := seen[SafeName(in)]; dup {
			t.Errorf("%q and %q share a name", in, other)
		}
		seen[SafeName(in)] = in
	}
}

func checkSafe(t *testing.T, in string) {
	t.Helper()
	name := SafeName(in)
	if name == "" || len(name) > maxName || name[0] == '.' || strings.ContainsAny(name, "/\\\x00 \n:") || !filepath.IsLocal(name) {
		t.Errorf("SafeName(%q) = %q", in, name)
	}
	if folder := CellFolder(1<<62, ExpectedCell{Combo: in, Concurrency: 1 << 62}); len(folder) > 255 {
		t.Errorf("folder of %d bytes", len(folder))
	}
}

func FuzzSafeName(f *testing.F) {
	f.Add("a", "a/b")
	f.Add("a%2Fb", "a/b")
	f.Fuzz(func(t *testing.T, a, b string) {
		checkSafe(t, a)
		if a != b && SafeName(a) == SafeName(b) {
			t.Errorf("%q and %q share %q", a, b, SafeName(a))
		}
	})
}

func TestNewRunID(t *testing.T) {
	t.Parallel()
	if got := NewRunID(t0.In(time.FixedZone("", 7200)), bytes.NewReader([]byte{1, 2, 3, 255})); got != "20260831T020000.123Z-010203ff" {
		t.Errorf("id = %s", got)
	}
	a, b := NewRunID(t0, rand.Reader), NewRunID(t0.Add(time.Millisecond), rand.Reader)
	if a >= b || !runIDPattern.MatchString(a) {
		t.Errorf("%s does not sort before %s", a, b)
	}
}
