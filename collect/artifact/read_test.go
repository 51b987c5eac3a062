package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCutAnywhere cuts every file of a run at every byte. Read must never fail
// as a whole, must name what it lost, and must never return anything that the
// whole run does not hold.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		d := writeRun(t)
		if closed {
			must(t, d.Close(Done, "", t0))
		}
		whole := read(t, d.Path())
		var files []string
		must(t, filepath.WalkDir(d.Path(), func(p string, e fs.DirEntry, err error) error {
			if !e.IsDir() && e.Name() != lockFile {
				files = append(files, p)
			}
			return err
		}))
		if len(files) < 14 {
			t.Fatalf("only %d files: %v", len(files), files)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			must(t, err)
			for n := range content {
				must(t, os.WriteFile(file, content[:n], 0o644))
				run, err := Read(d.Path())
				if err != nil {
					t.Fatalf("%s cut at %d: %v", file, n, err)
				}
				checkSubset(t, whole, run, file, n)
				rel, err := filepath.Rel(d.Path(), file)
				must(t, err)
				// Only a manifest tells a shorter text from a cut one, and only the
				// whole hides in white space at the end of JSON.
				tells := closed && !strings.HasPrefix(rel, inputsDir) && rel != clusterFile && !strings.HasSuffix(rel, ".log") ||
					strings.HasSuffix(rel, ".json") && strings.HasPrefix(rel, cellsDir) || rel == runFile || rel == expectedFile
				if ours := filepath.Base(rel) != "results.json"; !closed && ours && len(bytes.TrimSpace(content[n:])) == 0 {
					tells = false
				}
				if tells && reflect.DeepEqual(run.Problems, whole.Problems) {
					t.Errorf("%s cut at %d of %d: no problem named", rel, n, len(content))
				}
				if closed {
					if ps, err := Verify(d.Path()); err != nil || len(ps) == 0 {
						t.Errorf("%s cut at %d: Verify = %v, %v", file, n, ps, err)
					}
				}
			}
			must(t, os.WriteFile(file, content, 0o644))
		}
		if diff := cmp.Diff(whole, read(t, d.Path())); diff != "" {
			t.Error("restored run differs:", diff)
		}
	}
}

func checkSubset(t *testing.T, whole, run *Run, file string, n int) {
	t.Helper()
	zero := func(v any) bool { return reflect.ValueOf(v).IsZero() }
	same := func(what string, got, want any) {
		if !zero(got) && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s cut at %d: %s is %+v", file, n, what, got)
		}
	}
	same("meta", run.Meta, whole.Meta)
	same("expected", run.Expected, whole.Expected)
	same("thresholds", run.Thresholds, whole.Thresholds)
	same("config", run.Config, whole.Config)
	for _, s := range run.Stages {
		ok := false
		for _, w := range whole.Stages {
			// A stage whose end was cut off is running again, which is what is known.
			ok = ok || reflect.DeepEqual(s, w) || s.Seq == w.Seq && s.Status == Running && s.Ended == nil
		}
		if !ok {
			t.Fatalf("%s cut at %d: stage %+v", file, n, s)
		}
	}
	results := func(what string, got, want []Result) {
		for _, g := range got {
			ok := false
			for _, w := range want {
				ok = ok || g.Path == w.Path && bytes.Equal(g.Data, w.Data) && (g.CellKey == w.CellKey || what == "accuracy" && len(run.Expected.Tasks) == 0)
			}
			// Without its hash, a cut log or check of an open run cannot be told
			// from a short one; a result can.
			if !ok && (what == "result" || run.Meta.Status == Done) {
				t.Fatalf("%s cut at %d: %s %+v", file, n, what, g)
			}
		}
	}
	results("result", run.Results, whole.Results)
	results("accuracy", run.Accuracy, whole.Accuracy)
	results("check", run.Checks, whole.Checks)
}

func TestReadDamaged(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "secret.json")
	must(t, os.WriteFile(outside, []byte(`{"specs":[{"metric":"stolen"}]}`), 0o644))
	const cell = "cells/001-a-conc16/1/"
	tests := []struct {
		name    string
		damage  func(t *testing.T, at func(string) string)
		path    string // of the problem
		msg     string // part of it
		results int
	}{
		{"missing record", func(t *testing.T, at func(string) string) { must(t, os.Remove(at(cell+"record.json"))) },
			cell + "record.json", "missing", 2},
		{"changed result", func(t *testing.T, at func(string) string) {
			must(t, os.WriteFile(at(cell+"results.json"), []byte("{\"output_throughput\": 9}\r\n"), 0o644))
		}, cell + "results.json", "SHA-256", 1},
		{"missing result", func(t *testing.T, at func(string) string) { must(t, os.Remove(at(cell+"results.json"))) },
			cell + "results.json", "missing", 1},
		{"extra file", func(t *testing.T, at func(string) string) {
			must(t, os.WriteFile(at(cell+"results2.json"), []byte("{}"), 0o644))
		}, cell + "results2.json", "not in the record", 2},
		{"result is a link out", func(t *testing.T, at func(string) string) {
			must(t, os.Remove(at(cell+"results.json")))
			must(t, os.Symlink(outside, at(cell+"results.json")))
		}, cell + "results.json", "escapes", 1},
		{"thresholds is a link out", func(t *testing.T, at func(string) string) {
			must(t, os.Remove(at("thresholds.json")))
			must(t, os.Symlink(outside, at("thresholds.json")))
		}, "thresholds.json", "escapes", 2},
		{"record names a path", func(t *testing.T, at func(string) string) {
			edit(t, at(cell+"record.json"), `"name": "results.json"`, `"name": "../../002-%2E.%2Fb-conc32/1/results.json"`)
		}, cell + "record.json", "not a plain file name", 1},
		{"record of another cell", func(t *testing.T, at func(string) string) {
			edit(t, at(cell+"record.json"), `CONC=16`, `CONC=17`)
		}, cell + "record.json", `the record is of cell "ISL=1024,OSL=1024,TP=8,PP=1,CONC=17"`, 2},
		{"newer record", func(t *testing.T, at func(string) string) {
			edit(t, at(cell+"record.json"), `"format_version": 1`, `"format_version": 9`)
		}, cell + "record.json", "format version 9", 1},
		{"pipe", func(t *testing.T, at func(string) string) {
			must(t, os.Remove(at("config.json")))
			must(t, syscall.Mkfifo(at("config.json"), 0o644))
		}, "config.json", "not a regular file", 2},
		{"huge result", func(t *testing.T, at func(string) string) { must(t, os.Truncate(at(cell+"results.json"), maxResult+1)) },
			cell + "results.json", "more than", 1},
		{"stray folder", func(t *testing.T, at func(string) string) { must(t, os.MkdirAll(at("cells/001-a-conc16/x"), 0o755)) },
			"cells/001-a-conc16/x", "not the number of a repeat", 2},
		{"bad stage line", func(t *testing.T, at func(string) string) { edit(t, at(stagesFile), "{", "[") },
			stagesFile, "line 1", 2},
		{"long notes", func(t *testing.T, at func(string) string) {
			must(t, os.WriteFile(at(notesFile), []byte(strings.Repeat("é", maxNotes)), 0o644))
		}, notesFile, "the first 65536 are used", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := writeRun(t)
			tt.damage(t, func(name string) string { return filepath.Join(d.Path(), name) })
			run := read(t, d.Path())
			found := false
			for _, p := range run.Problems {
				found = found || p.Path == tt.path && strings.Contains(p.Msg, tt.msg)
			}
			if !found {
				t.Errorf("problems = %+v, want %s: …%s…", run.Problems, tt.path, tt.msg)
			}
			if len(run.Results) != tt.results {
				t.Errorf("%d results, want %d", len(run.Results), tt.results)
			}
			if b, _ := json.Marshal(run); bytes.Contains(b, []byte("stolen")) {
				t.Error("a link out of the directory was followed")
			}
		})
	}
}

func edit(t *testing.T, file, old, new string) {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	if !bytes.Contains(b, []byte(old)) {
		t.Fatalf("%s does not hold %s", file, old)
	}
	must(t, os.WriteFile(file, bytes.Replace(b, []byte(old), []byte(new), 1), 0o644))
}

func TestReadRefusesNewer(t *testing.T) {
	t.Parallel()
	d := writeRun(t)
	edit(t, filepath.Join(d.Path(), runFile), `"format_version": 1`, `"format_version": 2`)
	var newer *NewerFormatError
	if _, err := Read(d.Path()); !errors.As(err, &newer) || newer.Version != 2 || !strings.Contains(err.Error(), "format version 2") {
		t.Errorf("Read = %v", err)
	}
	if _, err := Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of an empty folder = %v", err)
	}
}

func TestFindRuns(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, p := range []string{"b", "a/deep/er", ".hidden"} {
		d, err := Create(filepath.Join(root, p), Meta{RunID: "r1"})
		must(t, err)
		must(t, d.Close(Done, "", t0))
	}
	must(t, os.MkdirAll(filepath.Join(root, "case"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "case", runFile), []byte(`{"run_id":"r1","started_at":"2026-08-31T02:00:00Z"}`), 0o644))
	must(t, os.Truncate(filepath.Join(root, "b", "r1", runFile), 20))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(root, link))
	for _, from := range []string{root, link} {
		got, err := FindRuns(from)
		must(t, err)
		want := []string{filepath.Join(from, "a/deep/er/r1"), filepath.Join(from, "b/r1")}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	self, err := FindRuns(filepath.Join(root, "b", "r1"))
	if err != nil || len(self) != 1 {
		t.Errorf("FindRuns of a run = %v, %v", self, err)
	}
	if _, err := FindRuns(filepath.Join(root, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("FindRuns of nothing: %v", err)
	}
}

// TestFullDisk fills a small file system and checks that nothing that was there
// is lost and that the run goes on when there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		if os.Getenv("CVS_TEST_REAL") == "1" {
			t.Fatal("needs a file system of its own:", err)
		}
		t.Skip("needs a file system of its own:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d, err := Create(disk, Meta{RunID: "r"})
	must(t, err)
	must(t, d.WriteExpected(Expected{Cells: cells}))
	_, err = d.AppendStage(Stage{Stage: "first", Started: t0, Status: Done})
	must(t, err)
	cd, err := d.CellDir(1, cells[0], 1)
	must(t, err)
	_, err = cd.WriteFile("results.json", "result", "", strings.NewReader("{}"))
	must(t, err)
	must(t, cd.WriteRecord(Record{CellKey: cells[0].Key, Repeat: 1, Status: Done}))

	for size := 128 << 10; size > 0; size /= 2 { // down to the last byte
		for i := 0; ; i++ {
			f, err := os.OpenFile(filepath.Join(disk, "fill"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			must(t, err)
			_, err = f.Write(make([]byte, size))
			must(t, f.Close())
			if err != nil {
				break
			}
		}
	}
	if _, err := cd.WriteFile("more.json", "result", "", strings.NewReader("{}")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteFile on a full disk: %v", err)
	}
	if err := d.UpdateMeta(func(m *Meta) { m.Suite = "changed" }); !errors.Is(err, syscall.ENOSPC) || d.Meta().Suite != "" {
		t.Errorf("UpdateMeta on a full disk: %v", err)
	}
	for i := 0; ; i++ {
		if _, err = d.AppendStage(Stage{Stage: strings.Repeat("x", 512), Started: t0, Status: Done}); err != nil {
			break
		}
		if i > 1000 {
			t.Fatal("the disk does not fill")
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("AppendStage on a full disk: %v", err)
	}
	run := read(t, d.Path())
	if len(run.Results) != 1 || len(run.Stages) == 0 || run.Meta.RunID != "r" || len(run.Expected.Cells) != 2 {
		t.Errorf("after a full disk: %+v", run)
	}
	n := len(run.Stages)

	must(t, os.Remove(filepath.Join(disk, "fill")))
	_, err = d.AppendStage(Stage{Stage: "again", Started: t0, Status: Done})
	must(t, err)
	must(t, d.Close(Failed, "disk", t0))
	run = read(t, d.Path())
	if len(run.Stages) != n+1 || run.Stages[n].Stage != "again" {
		t.Errorf("%d stages, want %d", len(run.Stages), n+1)
	}
}

func FuzzParseStages(f *testing.F) {
	f.Add([]byte("{\"seq\":1,\"stage\":\"a\",\"status\":\"done\"}\n\n{\"seq\":1"))
	f.Add([]byte("null\n[]\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		stages, bad := parseStages(b)
		if lines := bytes.Count(b, []byte{'\n'}) + 1; len(stages)+len(bad) > lines {
			t.Errorf("%d stages and %d problems from %d lines", len(stages), len(bad), lines)
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add(FormatSums(map[string]string{"a\\\nb": digest(nil), "run.json": digest([]byte("x"))}))
	f.Add([]byte("\\"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sums, err := ParseSums(b)
		if err != nil {
			return
		}
		again, err := ParseSums(FormatSums(sums))
		if err != nil || !reflect.DeepEqual(sums, again) {
			t.Errorf("%v became %v, %v", sums, again, err)
		}
	})
}

// FuzzRead gives Read any bytes as run.json, expected.json and a record.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format_version":1,"status":"done"}`), []byte(`{"cells":[{"combo":"a","concurrency":1,"key":"k"}]}`), []byte(`{"format_version":1,"files":[{"name":"../x","kind":"result"}]}`))
	f.Add([]byte(`null`), []byte(`[]`), []byte(`{"files":[{"name":"record.json","kind":"result"}]}`))
	f.Fuzz(func(t *testing.T, run, expected, record []byte) {
		dir := t.TempDir()
		cell := filepath.Join(dir, cellsDir, "001-a-conc1", "1")
		must(t, os.MkdirAll(cell, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, runFile), run, 0o644))
		must(t, os.WriteFile(filepath.Join(dir, expectedFile), expected, 0o644))
		must(t, os.WriteFile(filepath.Join(cell, recordFile), record, 0o644))
		got, err := Read(dir)
		var newer *NewerFormatError
		if err != nil && !errors.As(err, &newer) {
			t.Fatal(err)
		}
		if err == nil && len(got.Problems) == 0 {
			t.Error("a run without thresholds and stages has no problem")
		}
	})
}
