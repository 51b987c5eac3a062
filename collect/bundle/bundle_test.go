package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cvs/collect/artifact"
)

var start = time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)

// secret names that must not survive redaction.
const (
	user   = "mmustermann"
	host   = "gpu-node-17.lab.example.com"
	ip     = "10.245.3.17"
	token  = "hf_abcdefghijklmnopqrstuvwx"
	keyRef = "/home/mmustermann/.ssh/id_ed25519"
)

// newRun makes a closed run directory full of names.
func newRun(t *testing.T) string {
	t.Helper()
	d, err := artifact.Create(t.TempDir(), artifact.Meta{
		RunID: "r1", Suite: "atom", StartedAt: &start, Launcher: artifact.Launcher{User: user, Host: "launchbox"},
		CommandLine: []string{"cvs", "run", "--cluster_file", "/home/" + user + "/cluster.json"},
		Identity:    artifact.Identity{Model: "m", Driver: "atom", Hosts: []string{host + ":22", ip}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cell := artifact.ExpectedCell{Key: "ISL=1,OSL=1,TP=1,PP=1,CONC=1", ID: "a-conc1", Combo: "a", Concurrency: 1}
	if err := d.WriteExpected(artifact.Expected{Cells: []artifact.ExpectedCell{cell}}); err != nil {
		t.Fatal(err)
	}
	c, err := d.CellDir(1, cell, 1)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, kind, text string) error {
		_, err := c.WriteFile(name, kind, "", strings.NewReader(text))
		return err
	}
	for _, err := range []error{
		put("results.json", "result", (`{"completed": 1, "output_throughput": 1234.5678901234567, "base_url": "http://` + ip + `:8000", "note": "` + user + ` on gpu-node-17"}`)),
		put("server.log", "server_log", (strings.Repeat("2026-09-01 10:00:00 INFO "+host+" fe80::1ff:fe23:4567:890a%eth0 token="+token+"\n", 50))),
		c.WriteRecord(artifact.Record{CellKey: cell.Key, CellID: cell.ID, Repeat: 1, Host: host + ":22", Status: artifact.Done}),
		d.WriteCluster(map[string]any{"username": user, "priv_key_file": keyRef, "password": "hunter2hunter2", "node_dict": map[string]any{ip: map[string]string{"vpc_ip": "10.0.0.1", "mac": "0c:42:a1:00:00:01"}}}),
		d.WriteConfig(map[string]string{"hf_token_file": "/home/" + user + "/.hf", "models": "/home/{user-id}/models", "mail": user + "@example.com", "local": "127.0.0.1"}),
		d.WriteThresholds(artifact.Thresholds{}),
		d.WriteCheck([]byte("dmesg of "+host), "dmesg", ip+".txt"),
		d.AddInput("config", "/home/"+user+"/c.json", []byte(`{"user": "`+user+`"}`)),
		os.Mkdir(filepath.Join(d.Path(), "checks", "empty"), 0o755),
		d.Close(artifact.Done, "", start.Add(time.Hour)),
		os.MkdirAll(filepath.Join(d.Path(), "signoff"), 0o755),
		os.WriteFile(filepath.Join(d.Path(), "signoff", "log.jsonl"), []byte(user), 0o644),
		os.Symlink("/etc/passwd", filepath.Join(d.Path(), "checks", "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return d.Path()
}

func packRun(t *testing.T, dir string, maxLog int64) (string, *Info) {
	t.Helper()
	p, err := RunSources(dir, "r1", maxLog)
	if err != nil {
		t.Fatal(err)
	}
	info := &Info{Format: Format, Runs: []Run{{ID: "r1", Dir: "runs/r1"}}, Omitted: p.Omitted, Folders: p.Folders}
	text, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.cvsz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Write(f, append(p.Sources, Bytes(InfoFile, text)), start), f.Close()); err != nil {
		t.Fatal(err)
	}
	return file, info
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	dir := newRun(t)
	file, info := packRun(t, dir, 100)
	again, _ := packRun(t, dir, 100)
	a, _ := os.ReadFile(file)
	b, _ := os.ReadFile(again)
	if len(a) == 0 || !bytes.Equal(a, b) {
		t.Error("packing twice gives other bytes")
	}
	out := t.TempDir()
	if err := Extract(context.Background(), file, out, DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	if ps, err := Check(out); err != nil || len(ps) > 0 {
		t.Fatalf("check: %v %v", ps, err)
	}
	if _, err := os.Stat(filepath.Join(out, "runs/r1/checks/link")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link came along: %v", err)
	}
	if len(info.Omitted) != 2 || info.Omitted[0].Kept == "" && info.Omitted[1].Kept == "" {
		t.Errorf("omitted are %+v, want the link and the long log", info.Omitted)
	}
	got, err := ReadInfo(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := Restore(out, got); err != nil {
		t.Fatal(err)
	}
	was, err := artifact.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	is, err := artifact.Read(filepath.Join(out, "runs/r1"))
	if err != nil {
		t.Fatal(err)
	}
	was.Dir, is.Dir = "", ""
	x, _ := json.Marshal(was.Results)
	y, _ := json.Marshal(is.Results)
	if !bytes.Equal(x, y) || len(is.Results) != 1 {
		t.Errorf("results are\n%s\nwere\n%s", y, x)
	}
	for _, p := range is.Problems {
		t.Errorf("a problem that the original had not: %+v", p)
	}
}

func TestCheckFindsChanges(t *testing.T) {
	t.Parallel()
	file, _ := packRun(t, newRun(t), 1<<20)
	out := t.TempDir()
	if err := Extract(context.Background(), file, out, DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(out, "runs/r1/run.json"), []byte("{}"), 0o644),
		os.Remove(filepath.Join(out, "runs/r1/expected.json")),
		os.WriteFile(filepath.Join(out, "extra"), nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ps, err := Check(out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range ps {
		got = append(got, p.Path+" "+strings.Fields(p.Msg)[0])
	}
	if want := "extra not|runs/r1/expected.json missing|runs/r1/run.json changed:"; strings.Join(got, "|") != want {
		t.Errorf("problems are %q, want %q", strings.Join(got, "|"), want)
	}
}

type member struct {
	name string
	data string
	mode fs.FileMode
}

func makeZip(t *testing.T, members []member) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		if m.mode != 0 {
			h.SetMode(m.mode)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// overlapping is a zip of two names for the bytes of one member, as zip bombs
// are made.
func overlapping(t *testing.T) []byte {
	t.Helper()
	one := makeZip(t, []member{{name: "a", data: "hello"}})
	at := bytes.Index(one, []byte("PK\x01\x02"))
	end := bytes.Index(one, []byte("PK\x05\x06"))
	entry := bytes.Clone(one[at:end])
	second := bytes.Clone(entry)
	second[46] = 'b' // the name of the directory entry only
	tail := bytes.Clone(one[end:])
	binary.LittleEndian.PutUint16(tail[8:], 2)
	binary.LittleEndian.PutUint16(tail[10:], 2)
	binary.LittleEndian.PutUint32(tail[12:], uint32(2*len(entry)))
	return append(append(append(bytes.Clone(one[:at]), entry...), second...), tail...)
}

// lying claims fewer bytes than come out.
func lying(t *testing.T) []byte {
	t.Helper()
	data := []byte(strings.Repeat("x", 1000))
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "a", Method: zip.Store, CRC32: crc32.ChecksumIEEE(data), CompressedSize64: 1000, UncompressedSize64: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHostile(t *testing.T) {
	t.Parallel()
	small := Limits{Files: 3, One: 4 << 20, Total: 6 << 20, Ratio: 500}
	for name, tc := range map[string]struct {
		zip  []byte
		want string
	}{
		"parent":       {makeZip(t, []member{{name: "../x"}}), "no relative path"},
		"absolute":     {makeZip(t, []member{{name: "/etc/x"}}), "no relative path"},
		"inner parent": {makeZip(t, []member{{name: "a/../../x"}}), "no relative path"},
		"dot":          {makeZip(t, []member{{name: "a/./x"}}), "no relative path"},
		"backslash":    {makeZip(t, []member{{name: `a\x`}}), "not allowed in a path"},
		"nul":          {makeZip(t, []member{{name: "a\x00x"}}), "not allowed in a path"},
		"twice":        {makeZip(t, []member{{name: "a"}, {name: "a"}}), "stands twice"},
		"case":         {makeZip(t, []member{{name: "a"}, {name: "A"}}), "stands twice"},
		"file as dir":  {makeZip(t, []member{{name: "a"}, {name: "a/b"}}), "which is a file"},
		"link":         {makeZip(t, []member{{name: "a", data: "/etc/passwd", mode: fs.ModeSymlink | 0o777}}), "no regular file"},
		"folder":       {makeZip(t, []member{{name: "a/"}}), "no relative path"},
		"many":         {makeZip(t, []member{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}), "at most 3"},
		"large":        {makeZip(t, []member{{name: "a", data: strings.Repeat("x", 5<<20)}}), "at most 4194304"},
		"bomb":         {makeZip(t, []member{{name: "a", data: strings.Repeat("\x00", 3<<20)}}), "more than 500 times"},
		"sum":          {makeZip(t, []member{{name: "a", data: noise(3 << 20)}, {name: "b", data: noise(3<<20 + 1)}}), "more than 6291456"},
		"deep":         {makeZip(t, []member{{name: strings.Repeat("a/", 40) + "b"}}), "too deep"},
		"long name":    {makeZip(t, []member{{name: strings.Repeat("a", 300)}}), "255 bytes"},
		"overlap":      {overlapping(t), "shares its bytes"},
		"lying":        {lying(t), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, out := filepath.Join(t.TempDir(), "z"), t.TempDir()
			if err := os.WriteFile(file, tc.zip, 0o644); err != nil {
				t.Fatal(err)
			}
			err := Extract(context.Background(), file, out, small)
			var h *HostileError
			if !errors.As(err, &h) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a HostileError with %q", err, tc.want)
			}
			if entries, _ := os.ReadDir(out); len(entries) > 0 && name != "lying" {
				t.Errorf("something was written: %v", entries)
			}
		})
	}
	for _, junk := range []string{"", "no zip", "PK\x05\x06"} {
		file := filepath.Join(t.TempDir(), "z")
		if err := os.WriteFile(file, []byte(junk), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Extract(context.Background(), file, t.TempDir(), small); err == nil {
			t.Errorf("%q is unpacked", junk)
		}
	}
}

// noise does not compress.
func noise(n int) string {
	b := make([]byte, n)
	x := uint64(1)
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return string(b)
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range [][]Source{{Bytes("../x", nil)}, {Bytes("a", nil), Bytes("a", nil)}, {Bytes(ManifestFile, nil)}} {
		if err := Write(&bytes.Buffer{}, s, start); err == nil {
			t.Errorf("%s is packed", s[0].Name)
		}
	}
}

func TestReadInfoRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"format":"cvs-bundle@v2"}`, `{`, `{"format":"cvs-bundle@v1","runs":[{"dir":"../x"}]}`, `{"format":"cvs-bundle@v1","views":["../x"]}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, InfoFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadInfo(dir); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	for _, o := range []Omitted{{Path: "../x.log", Kept: "a"}, {Path: "run.json", Kept: "a"}, {Path: "x.log", Kept: "a", Bytes: 1 << 50}, {Path: "x.log", Kept: "../../etc/passwd", Bytes: 9}} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Restore(dir, &Info{Omitted: []Omitted{o}}); err == nil {
			t.Errorf("%+v is restored", o)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	dir := newRun(t)
	for name, key := range map[string][]byte{"counting": nil, "keyed": []byte("a secret of the lab")} {
		dst, other := filepath.Join(t.TempDir(), "r1"), filepath.Join(t.TempDir(), "r1")
		left, err := NewRedactor(key).RunDir(dir, dst, "r1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewRedactor(key).RunDir(dir, other, "r1"); err != nil {
			t.Fatal(err)
		}
		secrets := []string{user, host, "gpu-node-17", "launchbox", ip, token, ".ssh", "hunter2", "10.0.0.1", "0c:42:a1", "fe80::1ff"}
		files := 0
		err = filepath.WalkDir(dst, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(dst, file)
			for _, s := range secrets {
				if strings.Contains(string(data), s) || strings.Contains(rel, s) {
					t.Errorf("%s: %s still holds %q:\n%s", name, rel, s, data)
				}
			}
			same, err := os.ReadFile(filepath.Join(other, rel))
			if err != nil || !bytes.Equal(same, data) {
				t.Errorf("%s: %s differs when redacted again", name, rel)
			}
			return nil
		})
		if err != nil || files < 8 {
			t.Fatalf("%s: %d files, %v", name, files, err)
		}
		if ps, err := artifact.Verify(dst); err != nil || len(ps) > 0 {
			t.Errorf("%s: the copy is not sound: %v %v", name, ps, err)
		}
		r, err := artifact.Read(dst)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Problems) > 0 || len(r.Results) != 1 || !strings.Contains(string(r.Results[0].Data), "1234.5678901234567") {
			t.Errorf("%s: the copy reads as %+v, problems %v", name, r.Results, r.Problems)
		}
		if r.Records[0].Host != strings.Split(r.Meta.Identity.Hosts[0], ":")[0]+":22" || !strings.HasPrefix(r.Records[0].Host, "host-") {
			t.Errorf("%s: one host has two names: %q and %q", name, r.Records[0].Host, r.Meta.Identity.Hosts)
		}
		if cfg := string(r.Config); !strings.Contains(cfg, "127.0.0.1") || !strings.Contains(cfg, "{user-id}") {
			t.Errorf("%s: what names nobody changed: %s", name, cfg)
		}
		signoffLeft := false
		for _, o := range left {
			signoffLeft = signoffLeft || o.Path == "runs/r1/signoff"
		}
		if !signoffLeft {
			t.Errorf("%s: left out are %v, want the sign-offs among them", name, left)
		}
	}
}

func TestDiffRows(t *testing.T) {
	t.Parallel()
	row := func(cell, state, got string) string {
		return `{"run_id": "r", "cell_key": "` + cell + `", "state": "` + state + `", "got": ` + got + "}\n"
	}
	for name, tc := range map[string]struct{ was, now, want string }{
		"same":    {row("a", "pass", "1"), row("a", "pass", "1"), ""},
		"changed": {row("a", "pass", "1") + row("b", "pass", "1"), row("a", "pass", "1") + row("b", "fail", "2"), `gates r b state is "fail", recorded was "pass"|gates r b got is 2, recorded was 1`},
		"gone":    {row("a", "pass", "1"), "", `gates: this row is gone: {"run_id": "r", "cell_key": "a", "state": "pass", "got": 1}`},
		"new":     {"", row("a", "pass", "1"), `gates: this row is new: {"run_id": "r", "cell_key": "a", "state": "pass", "got": 1}`},
		"moved":   {row("a", "pass", "1") + row("b", "pass", "1"), row("b", "pass", "1") + row("a", "pass", "1"), ""},
		"twice":   {row("a", "pass", "1") + row("a", "pass", "1"), row("a", "pass", "1"), `gates: this row is gone: {"run_id": "r", "cell_key": "a", "state": "pass", "got": 1}`},
		"column":  {`{"cell_key": "a"}` + "\n", `{"cell_key": "a", "x": 1}` + "\n", "gates a column x is new"},
	} {
		got, n := DiffRows("gates", []byte(tc.was), []byte(tc.now), 9)
		if strings.Join(got, "|") != tc.want || n != len(got) {
			t.Errorf("%s: got %q, want %q", name, strings.Join(got, "|"), tc.want)
		}
	}
	if got, n := DiffRows("v", []byte("1\n2\n3\n"), nil, 1); len(got) != 1 || n != 3 {
		t.Errorf("the limit gives %q of %d", got, n)
	}
}

func FuzzExtract(f *testing.F) {
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		file, out := filepath.Join(dir, "z"), filepath.Join(dir, "out")
		if err := errors.Join(os.WriteFile(file, data, 0o644), os.Mkdir(out, 0o755)); err != nil {
			t.Fatal(err)
		}
		_ = Extract(context.Background(), file, out, Limits{Files: 10, One: 1 << 16, Total: 1 << 17, Ratio: 500})
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 {
			t.Fatalf("something was written beside the folder: %v %v", entries, err)
		}
	})
}

func FuzzRedactJSON(f *testing.F) {
	f.Add([]byte(`{"host": "10.1.2.3", "n": NaN, "a": ["/home/bob/x"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out := NewRedactor(nil).JSON(data)
		if json.Valid(data) && !json.Valid(out) {
			t.Errorf("%q became %q", data, out)
		}
	})
}
