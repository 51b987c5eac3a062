package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrRemote is matched by every error that means "the host, not the command":
// UnreachableError, UnknownHostKeyError, HostKeyChangedError, AuthError,
// LostError, ShellError, TimeoutError.
var ErrRemote = errors.New("remote host failed")

// ErrInput is matched by errors about the launcher's own files and settings,
// which no host was asked about: KeyFileError, a broken known_hosts file, an
// address that is none.
var ErrInput = errors.New("ssh settings cannot be used")

// The phases of a connection, as errors name them.
const (
	PhaseConnect   = "connect"
	PhaseHandshake = "handshake"
	PhaseAuth      = "authentication"
	PhaseSession   = "session"
	PhaseCommand   = "command"
)

// An UnreachableError reports a host that could not be connected to, or that
// refused a session.
type UnreachableError struct {
	Host  string
	Phase string
	Err   error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s: %s failed: %v", e.Host, e.Phase, e.Err)
}
func (e *UnreachableError) Unwrap() error        { return e.Err }
func (e *UnreachableError) Is(target error) bool { return target == ErrRemote }

// A TimeoutError reports a step that did not end in time.
type TimeoutError struct {
	Host    string
	Phase   string
	After   time.Duration
	Command string // name of the command, in the phase of that name
}

func (e *TimeoutError) Error() string {
	if e.Phase == PhaseCommand {
		return fmt.Sprintf("%s: %s did not end within %s; it was sent TERM and may still be running", e.Host, e.Command, e.After.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s: no answer during %s within %s", e.Host, e.Phase, e.After.Round(time.Millisecond))
}
func (e *TimeoutError) Is(target error) bool {
	return target == ErrRemote || target == context.DeadlineExceeded
}

// An UnknownHostKeyError reports a host whose key is in none of the known_hosts
// files. Nothing was sent to it.
type UnknownHostKeyError struct {
	Host        string
	KeyType     string // e.g. ssh-ed25519
	Fingerprint string // SHA256:…
	Files       []string
}

func (e *UnknownHostKeyError) Error() string {
	where := "no known_hosts file is given"
	if len(e.Files) > 0 {
		where = "it is not in " + strings.Join(e.Files, ", ")
	}
	return fmt.Sprintf("%s: unknown host key %s %s: %s. Compare the fingerprint with the host's own (ssh-keygen -lf on it), then accept it with --accept-new-host-keys",
		e.Host, e.KeyType, e.Fingerprint, where)
}
func (e *UnknownHostKeyError) Is(target error) bool { return target == ErrRemote }

// A HostKeyChangedError reports a host whose key is not the one on file, or was
// revoked. Nothing was sent to it.
type HostKeyChangedError struct {
	Host        string
	KeyType     string // "" if the host offers no key of the known types at all
	Fingerprint string
	Known       []string // file:line of the keys on file
	Revoked     bool
}

func (e *HostKeyChangedError) Error() string {
	if e.Revoked {
		return fmt.Sprintf("%s: host key %s %s is revoked", e.Host, e.KeyType, e.Fingerprint)
	}
	offer := "it offers " + e.KeyType + " " + e.Fingerprint
	if e.KeyType == "" {
		offer = "it offers no key of the types on file"
	}
	return fmt.Sprintf("%s: host key CHANGED: %s, which is not the key in %s. The host was reinstalled, or someone is in between; if you know that it is right, remove the old line and accept the new key",
		e.Host, offer, strings.Join(e.Known, ", "))
}
func (e *HostKeyChangedError) Is(target error) bool { return target == ErrRemote }

// An AuthError reports a refused login.
type AuthError struct {
	Host, User string
	Tried      []string // what was offered, in order
	Err        error
}

func (e *AuthError) Error() string {
	tried := "nothing to offer: no key file, agent key or password"
	if len(e.Tried) > 0 {
		tried = "tried " + strings.Join(e.Tried, ", ")
	}
	return fmt.Sprintf("%s: login as %q refused (%s): %v", e.Host, e.User, tried, e.Err)
}
func (e *AuthError) Unwrap() error        { return e.Err }
func (e *AuthError) Is(target error) bool { return target == ErrRemote }

// A LostError reports a connection that ended while it was needed. Whether the
// command ran to its end is not known.
type LostError struct {
	Host    string
	Command string // what was under way
	Err     error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s: connection lost during %s: %v", e.Host, e.Command, e.Err)
}
func (e *LostError) Unwrap() error        { return e.Err }
func (e *LostError) Is(target error) bool { return target == ErrRemote }

// A ShellError reports a login shell that ended before it started the command:
// a locked account, a forced command, a start-up file that exits.
type ShellError struct {
	Host     string
	ExitCode int
	Output   string // the beginning of what it printed
}

func (e *ShellError) Error() string {
	return fmt.Sprintf("%s: the login shell ended with status %d before the command started; it printed %q", e.Host, e.ExitCode, e.Output)
}
func (e *ShellError) Is(target error) bool { return target == ErrRemote }

// A KeyFileError reports a private key file that cannot be used.
type KeyFileError struct {
	Path string
	Msg  string
}

func (e *KeyFileError) Error() string        { return fmt.Sprintf("key file %s: %s", e.Path, e.Msg) }
func (e *KeyFileError) Is(target error) bool { return target == ErrInput }

// inputError is an error of the launcher's settings without a type of its own.
type inputError struct{ err error }

func (e inputError) Error() string        { return e.err.Error() }
func (e inputError) Unwrap() error        { return e.err }
func (e inputError) Is(target error) bool { return target == ErrInput }
