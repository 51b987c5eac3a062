package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/term" // a passphrase is read without being shown
)

// signingKey finds the key to sign with: a private key file, a public key file
// whose private half the agent holds, "agent" for its only key, or "" for
// ~/.ssh/id_ed25519 and then the agent. The returned function lets go of the
// agent.
func signingKey(ctx context.Context, e *env, name string) (ssh.Signer, func(), error) {
	nothing := func() {}
	if name == "" {
		name = "agent"
		if home := e.getenv("HOME"); home != "" {
			if file := filepath.Join(home, ".ssh", "id_ed25519"); isFile(file) {
				name = file
			}
		}
	}
	if name == "agent" {
		return agentKey(e, nil)
	}
	data, err := readInput(name, maxInputFile)
	if err != nil {
		return nil, nothing, badInput("--key: %v", err)
	}
	if pub, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
		return agentKey(e, pub)
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return signer, nothing, nil
	case !errors.As(err, &locked):
		return nil, nothing, badInput("--key %s: not a private key: %v", name, err)
	}
	pub := locked.PublicKey // nil for the old PEM form
	if text, err := os.ReadFile(name + ".pub"); pub == nil && err == nil {
		pub, _, _, _, _ = ssh.ParseAuthorizedKey(text)
	}
	if pub != nil && e.getenv("SSH_AUTH_SOCK") != "" {
		if held, done, err := agentKey(e, pub); err == nil {
			return held, done, nil
		}
	}
	signer, err = askPassphrase(ctx, e, name, data)
	return signer, nothing, err
}

// askPassphrase unlocks a private key on a terminal. A passphrase is never an
// argument, an environment variable or part of a message.
func askPassphrase(ctx context.Context, e *env, name string, data []byte) (ssh.Signer, error) {
	in, ok := e.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, badInput("--key %s: it has a passphrase, and there is no terminal to ask for it: add the key to an SSH agent with ssh-add, or run the command on a terminal", name)
	}
	fmt.Fprintf(e.stderr, "Passphrase of %s (not shown): ", visible(name))
	secret, err := readHidden(ctx, int(in.Fd()))
	fmt.Fprintln(e.stderr)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("--key %s: no passphrase: %w", visible(name), ctx.Err())
	}
	if err != nil {
		return nil, badInput("--key %s: read the passphrase: %v", name, err)
	}
	defer clear(secret)
	signer, err := ssh.ParsePrivateKeyWithPassphrase(data, secret)
	if err != nil {
		return nil, badInput("--key %s: the passphrase does not open it", name)
	}
	return signer, nil
}

// readHidden reads a line from a terminal that does not show it. Reading cannot be
// interrupted; when ctx ends the terminal gets its mode back and the read is left
// to the end of the process, which follows.
func readHidden(ctx context.Context, fd int) ([]byte, error) {
	was, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		return l.text, l.err
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), term.Restore(fd, was))
	}
}

func isFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// agentKey takes want from the SSH agent, or its only key.
func agentKey(e *env, want ssh.PublicKey) (ssh.Signer, func(), error) {
	nothing := func() {}
	socket := e.getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, nothing, badInput("no key to sign with: name one with --key, or start an SSH agent (SSH_AUTH_SOCK is not set)")
	}
	conn, err := net.DialTimeout("unix", socket, 5*time.Second)
	if err != nil {
		return nil, nothing, badInput("SSH agent: %v", err)
	}
	stop := func() { conn.Close() }
	held, err := agent.NewClient(conn).Signers()
	if err != nil {
		stop()
		return nil, nothing, badInput("SSH agent: %v", err)
	}
	var names []string
	for _, s := range held {
		if want != nil && bytes.Equal(s.PublicKey().Marshal(), want.Marshal()) || want == nil && len(held) == 1 {
			return s, stop, nil
		}
		names = append(names, ssh.FingerprintSHA256(s.PublicKey()))
	}
	stop()
	switch {
	case want != nil:
		return nil, nothing, badInput("the SSH agent does not hold %s; add it with ssh-add", ssh.FingerprintSHA256(want))
	case len(held) == 0:
		return nil, nothing, badInput("the SSH agent holds no key; add one with ssh-add, or name one with --key")
	}
	return nil, nothing, badInput("the SSH agent holds %d keys (%s); name the .pub file of one with --key", len(held), strings.Join(names, ", "))
}

// verifyLine is the command that checks an entry without cvs.
func verifyLine(dir, identity string, seq int) string {
	file := filepath.Join(dir, "signoff", fmt.Sprintf("%04d.json", seq))
	return fmt.Sprintf("ssh-keygen -Y verify -f ALLOWED_SIGNERS -I %s -n cvs-signoff@v1 -s %s.sig < %s", identity, file, file)
}
