package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cvs/collect/remote"
)

// A local runs commands on this machine, with a folder of stand-ins in front of
// the search path.
type local struct{ bin string }

func (l local) Run(ctx context.Context, c remote.Command) (remote.Result, error) {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	path := l.bin + ":/usr/bin:/bin"
	cmd := exec.CommandContext(ctx, "env", append([]string{"PATH=" + path}, c.Args...)...)
	cmd.Stdin = c.Stdin
	cmd.WaitDelay = 2 * time.Second // children of a command that is given up hold its pipes
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return remote.Result{}, errors.Join(err, ctx.Err())
	}
	return remote.Result{ExitCode: cmd.ProcessState.ExitCode(), Stdout: out.Bytes(), Stderr: errs.Bytes()}, nil
}

// standIns writes scripts that take the place of programs.
func standIns(t *testing.T, scripts map[string]string) local {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return local{dir}
}

// A scripted runner answers commands by a part of their argument list, in order.
type scripted []struct {
	part   string
	out    string
	code   int
	stderr string
	err    error
}

func (s scripted) Run(_ context.Context, c remote.Command) (remote.Result, error) {
	line := strings.Join(c.Args, " ")
	if c.Stdin != nil {
		if _, err := io.Copy(io.Discard, c.Stdin); err != nil {
			return remote.Result{}, err
		}
	}
	for _, r := range s {
		if strings.Contains(line, r.part) {
			return remote.Result{ExitCode: r.code, Stdout: []byte(r.out), Stderr: []byte(r.stderr)}, r.err
		}
	}
	return remote.Result{}, errors.New("unexpected command: " + line)
}

// golden compares with a file of testdata, which UPDATE=1 rewrites.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (UPDATE=1 rewrites it); got:\n%s", name, got)
	}
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func ptr[T any](v T) *T { return &v }
