package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty" // a pair of terminals, to type on one end
	"golang.org/x/sys/unix"
)

// TestPassphrase asks for a passphrase on a terminal: what is typed is not shown,
// signs, and leaves the terminal as it was; a wrong one signs nothing.
func TestPassphrase(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	dir := reviewRun{id: "r1", driver: "atom", enforce: true}.write(t, d.dir)
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-a", "1", "-N", "open sesame", "-f", d.at("locked")).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %s", out)
	}
	signed := 0
	for _, tc := range []struct {
		typed, says string
		exit        int
	}{
		{"open barley\n", "the passphrase does not open it", 2},
		{"\n", "the passphrase does not open it", 2},
		{"open sesame\n", "entry 1", 0},
		{"", "no passphrase", 130}, // interrupted; last, because its read outlives it
	} {
		keyboard, terminal, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		var out lockedBuffer
		e := &env{stdin: terminal, stdout: &out, stderr: &out, now: func() time.Time { return d.now },
			getenv: func(string) string { return "" }, osUser: func() string { return "me" }}
		before := modeOf(t, terminal)
		ctx, interrupt := context.WithCancel(t.Context())
		code := make(chan int, 1)
		go func() {
			code <- run(ctx, e, []string{"signoff", dir, "--decision", "reject", "--role", "performance", "--identity", "alice", "--key", d.at("locked")})
		}()
		for modeOf(t, terminal).Lflag&unix.ECHO != 0 { // what is typed earlier would be shown by the terminal
			select {
			case c := <-code:
				t.Fatalf("it did not ask: exit %d\n%s", c, out.String())
			case <-time.After(time.Millisecond):
			}
		}
		if tc.exit == 130 {
			interrupt()
		} else if _, err := keyboard.WriteString(tc.typed); err != nil {
			t.Fatal(err)
		}
		got := <-code
		interrupt()
		if text := out.String(); got != tc.exit || !strings.Contains(text, tc.says) || !strings.Contains(text, "Passphrase of "+d.at("locked")+" (not shown): \n") {
			t.Errorf("%q: exit %d, want %d and %q in\n%s", tc.typed, got, tc.exit, tc.says, text)
		}
		if word := strings.TrimSpace(tc.typed); word != "" && strings.Contains(out.String(), word) {
			t.Errorf("the passphrase is printed:\n%s", out.String())
		}
		if after := modeOf(t, terminal); *after != *before {
			t.Errorf("%q: the terminal was left in another mode", tc.typed)
		}
		// What the terminal shows of what is typed; the full stop is the end of it.
		if _, err := terminal.WriteString("."); err != nil {
			t.Fatal(err)
		}
		var shown []byte
		for !bytes.HasSuffix(shown, []byte(".")) {
			some := make([]byte, 256)
			n, err := keyboard.Read(some)
			if err != nil {
				t.Fatal(err)
			}
			shown = append(shown, some[:n]...)
		}
		if s := strings.TrimSpace(string(shown)); s != "." {
			t.Errorf("%q: the terminal shows %q", tc.typed, s)
		}
		if tc.exit == 0 {
			signed++
		}
		log, _ := os.ReadFile(filepath.Join(dir, "signoff", "log.jsonl")) // not there yet: nothing is signed
		if n := bytes.Count(log, []byte("\n")); n != signed {
			t.Errorf("%q: %d entries are signed, want %d", tc.typed, n, signed)
		}
		if tc.exit == 130 {
			_, _ = keyboard.WriteString("\n") // ends the read that is left over
			t.Cleanup(func() { terminal.Close(); keyboard.Close() })
			continue
		}
		terminal.Close()
		keyboard.Close()
	}
}

func modeOf(t *testing.T, f *os.File) *unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
