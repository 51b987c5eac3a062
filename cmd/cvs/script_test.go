package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"cvs/collect/lab"
)

// asCVS in the environment makes the test binary cvs itself.
const asCVS = "CVS_TEST_AS_CVS"

// TestMain makes the test binary stand for cvs in scripts, and for the lab's
// programs when the lab starts it under their names.
func TestMain(m *testing.M) {
	if handled, code := lab.Main(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr); handled {
		os.Exit(code)
	}
	if os.Getenv(asCVS) != "" {
		os.Exit(realMain())
	}
	testscript.Main(m, map[string]func(){"cvs": main})
}

// TestScript runs the CLI from outside: testdata/script/*.txtar.
func TestScript(t *testing.T) {
	t.Parallel()
	runScripts(t, "script")
}

// TestDemo is the main job on the lab: testdata/demo/*.txtar. It is not parallel
// to this package's other tests, because the lab measures wall-clock latencies.
func TestDemo(t *testing.T) {
	runScripts(t, "demo")
}

func runScripts(t *testing.T, dir string) {
	t.Helper()
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", dir),
		UpdateScripts:       os.Getenv("UPDATE") != "",
		RequireExplicitExec: false,
		Setup: func(e *testscript.Env) error {
			e.Setenv("TESTDATA", data)
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits_},
	})
}

// exits_ is the script command "exits CODE cvs args…": testscript's own "!"
// only knows zero and not zero.
func exits_(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exits: %q is no number", args[0])
	}
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		x, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("exits: %v", err)
		}
		got = x.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s: exit %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}
