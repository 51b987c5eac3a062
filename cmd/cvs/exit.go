package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"

	"cvs/collect"
	"cvs/collect/plan"
	"cvs/collect/remote"
	"cvs/warehouse"
)

// exitHelp ends the help of the commands that judge or store.
const exitHelp = `
Exit status:
  0    done, no gate failed (record-only included)
  1    a gate failed
  2    bad input: config, threshold, cluster file or option; nothing was run or stored
  3    a result is missing, unreadable, stale or contradicts its identity
  4    a host, SSH, Docker, a server or a client failed
  5    warehouse, lock, disk or permission
  130  interrupted; what was measured is kept
If several apply, 130 wins, then 2, 5, 4, 3, 1; all are reported.
`

// A statusError carries an exit status that a view or a command decided.
type statusError struct {
	code int
	msg  string // "" when everything was printed already
}

func (e *statusError) Error() string { return e.msg }

// badInput is an error of the command line or an input file (exit 2).
func badInput(format string, args ...any) error {
	return &statusError{2, fmt.Sprintf(format, args...)}
}

// badData is an unreadable or missing result (exit 3).
func badData(format string, args ...any) error {
	return &statusError{3, fmt.Sprintf(format, args...)}
}

// badStore is a disk, lock or permission error (exit 5).
func badStore(err error) error { return &statusError{5, err.Error()} }

// exits is the contract with scripts; the first match wins (decision 10). The
// verdict's codes come from the view run_status in a statusError.
var exits = []struct {
	code int
	is   func(error) bool
}{
	{130, func(err error) bool { return errors.Is(err, context.Canceled) || hasCode(err, 130) }},
	{2, func(err error) bool {
		var e *plan.Error
		return errors.As(err, &e) || errors.Is(err, remote.ErrInput) || hasCode(err, 2)
	}},
	{5, func(err error) bool {
		var l *warehouse.LockedError
		return errors.As(err, &l) || hasCode(err, 5)
	}},
	{4, func(err error) bool {
		return errors.Is(err, collect.ErrRun) || errors.Is(err, remote.ErrRemote) || hasCode(err, 4)
	}},
	{3, func(err error) bool {
		var c *warehouse.ConflictError
		return errors.As(err, &c) || hasCode(err, 3)
	}},
	{1, func(err error) bool { return hasCode(err, 1) }},
}

// hasCode looks for a statusError of that code anywhere in a tree of errors,
// since several may have been joined.
func hasCode(err error, code int) bool {
	switch e := err.(type) {
	case nil:
		return false
	case *statusError:
		return e.code == code
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			if hasCode(sub, code) {
				return true
			}
		}
		return false
	case interface{ Unwrap() error }:
		return hasCode(e.Unwrap(), code)
	}
	return false
}

// exitCode maps an error to the exit status. What nothing in the table claims
// is trouble of this process with its machine: 5.
func exitCode(err error) int {
	if err == nil || errors.Is(err, errDone) {
		return 0
	}
	for _, x := range exits {
		if x.is(err) {
			return x.code
		}
	}
	return 5
}

// message is what is printed of an error: every part that has a text.
func message(err error) string {
	if errors.Is(err, errDone) {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i, l := range lines { // names of files and texts of others are in it
		lines[i] = visible(l)
	}
	return strings.Join(lines, "\n")
}

// didYouMean is ", did you mean X?" for a near miss, else "".
func didYouMean(name string, valid []string) string {
	if near := plan.Nearest(name, valid); near != "" {
		return ", did you mean " + near + "?"
	}
	return ""
}

// snakeOrKebab lets every flag be written with - or _; the flags of the older
// suite keep their snake_case as the canonical name (decision 37).
func snakeOrKebab(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	kebab := strings.ReplaceAll(name, "_", "-")
	switch kebab {
	case "cluster-file", "config-file", "config-profile":
		return pflag.NormalizedName(strings.ReplaceAll(kebab, "-", "_"))
	}
	return pflag.NormalizedName(kebab)
}

// toolVersion is the module version, or the revision it was built from.
func toolVersion() string {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := bi.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range bi.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v = "devel-" + s.Value[:12]
			}
		}
	}
	return v
}
