package plan

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

const (
	configName    = "mi325x_atom_demo_fp8_single.json"
	thresholdName = "mi325x_atom_demo_fp8_threshold.json"
	clusterName   = "cluster.json"
)

// memory is a directory in memory.
type memory map[string][]byte

func (m memory) read(path string) ([]byte, error) {
	if b, ok := m[path]; ok {
		return b, nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

func (m memory) thresholds(string) ([]string, error) {
	var names []string
	for n := range m {
		if strings.HasSuffix(n, "threshold.json") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names, nil
}

// base is the good set of files that tests change.
func base(t testing.TB) memory {
	t.Helper()
	m := memory{}
	for name, file := range map[string]string{configName: "config", thresholdName: "threshold", clusterName: "cluster"} {
		b, err := os.ReadFile("testdata/base/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		m[name] = b
	}
	return m
}

var names = map[string]string{"config": configName, "threshold": thresholdName, "cluster": clusterName}

// edit replaces one text by another; the text must be there.
func (m memory) edit(t testing.TB, file, from, to string) {
	t.Helper()
	name := names[file]
	if !bytes.Contains(m[name], []byte(from)) {
		t.Fatalf("%s has no %q", file, from)
	}
	m[name] = bytes.Replace(m[name], []byte(from), []byte(to), 1)
}

func options() Options {
	return Options{ConfigFile: configName, ClusterFile: clusterName, OSUser: "me"}
}

// TestBad loads one refused file per rule. A case names why it is refused,
// changes the base files, and gives the exact messages; UPDATE=1 rewrites them.
func TestBad(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(cases) < 100 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			m, o, want := base(t), options(), -1
			for i, f := range a.Files {
				switch f.Name {
				case "edit":
					applyEdits(t, m, f.Data)
				case "options":
					for _, l := range strings.Split(strings.TrimSpace(string(f.Data)), "\n") {
						key, value, _ := strings.Cut(l, " ")
						switch key {
						case "profile":
							o.Profile = value
						case "env":
							o.EnvProfile = value
						default:
							t.Fatalf("unknown option %q", key)
						}
					}
				case "extra":
					m[strings.TrimSpace(string(f.Data))] = m[thresholdName]
				case "want":
					want = i
				default:
					name, ok := names[strings.TrimSuffix(f.Name, ".json")]
					if !ok {
						t.Fatalf("unknown file %q", f.Name)
					}
					m[name] = f.Data
				}
			}
			p, err := load(m, o)
			var e *Error
			if !errors.As(err, &e) || p != nil {
				t.Fatalf("accepted: plan %v, error %v", p != nil, err)
			}
			got := e.Error() + "\n"
			if os.Getenv("UPDATE") == "1" {
				a.Files[want].Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(a.Files[want].Data), got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// applyEdits reads triples of lines: file, quoted old text, quoted new text.
func applyEdits(t testing.TB, m memory, data []byte) {
	t.Helper()
	s := bufio.NewScanner(bytes.NewReader(data))
	for s.Scan() {
		file := s.Text()
		var text [2]string
		for i := range text {
			s.Scan()
			u, err := strconv.Unquote(s.Text())
			if err != nil {
				t.Fatalf("edit %q: %v", s.Text(), err)
			}
			text[i] = u
		}
		m.edit(t, file, text[0], text[1])
	}
}
