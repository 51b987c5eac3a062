package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"cvs/collect/lab"
)

func TestCaseUnknownHostKey(t *testing.T) { // c260
	t.Parallel()
	for _, changed := range []bool{false, true} {
		t.Run(fmt.Sprint("changed=", changed), func(t *testing.T) {
			t.Parallel()
			c := newRunCase(t, "c260-unknown-host-key", 1, lab.Faults{})
			file := filepath.Join(c.dir, "known_hosts")
			line, word := "", "unknown host key"
			if changed {
				line, word = knownhosts.Line([]string{c.lab.Addr(0)}, newHostKey(t).PublicKey())+"\n", "host key CHANGED"
			}
			check(t, os.WriteFile(file, []byte(line), 0o600))
			c.known = []string{file}
			c.expect(4, word, c.lab.Addr(0), "ssh-ed25519", "SHA256:")
			if changed && strings.Contains(c.out.String(), "unknown host key") {
				t.Error("a changed key is worded as an unknown one")
			}
			c.quiet()
		})
	}
}

// sickHost answers like a host of fake_host.json, as far as the behaviour says.
func sickHost(t *testing.T, behaviour string, login ssh.PublicKey) (addr, known string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	addr = l.Addr().String()
	key := newHostKey(t)
	known = knownhosts.Line([]string{addr}, key.PublicKey()) + "\n"
	switch behaviour {
	case "refused":
		check(t, l.Close())
		return addr, known
	case "blackhole": // TEST-NET-1 is routed nowhere
		check(t, l.Close())
		return "192.0.2.12:22", known
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { close(stop); l.Close(); wg.Wait() })
	conf := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if behaviour == "no_auth_reply" {
			<-stop
		}
		return nil, nil
	}}
	conf.AddHostKey(key)
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				if behaviour != "no_banner" {
					go func() { <-stop; conn.Close() }()
					if _, channels, requests, err := ssh.NewServerConn(conn, conf); err == nil {
						go ssh.DiscardRequests(requests)
						for range channels { // asked for a session, it says nothing
						}
					}
				}
				<-stop
			})
		}
	})
	return addr, known
}

func TestCaseHostThatNeverAnswers(t *testing.T) { // c262
	t.Parallel()
	phases := map[string]string{"no_banner": "handshake", "no_auth_reply": "authentication", "no_session_reply": "session", "refused": "connect", "blackhole": "connect"}
	for behaviour, phase := range phases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			c := newRunCase(t, "c262-host-that-never-answers", 1, lab.Faults{})
			addr, known := sickHost(t, behaviour, nil)
			file := filepath.Join(c.dir, "known_hosts")
			check(t, os.WriteFile(file, []byte(readFile(t, c.lab.KnownHosts())+known), 0o600))
			c.known = []string{file}
			sub(c.cluster, "node_dict")[addr] = map[string]any{"vpc_ip": "192.0.2.12"}
			began := time.Now()
			c.expect(4, addr, phase)
			if took := time.Since(began); took > 60*time.Second {
				t.Errorf("it took %v", took)
			}
			c.quiet()
		})
	}
}

func TestCaseConnectionLost(t *testing.T) { // c263
	t.Parallel()
	c := newRunCase(t, "c263-connection-lost-in-mid-run", 1, lab.Faults{Client: lab.ClientHangs, ClientConcurrency: 128})
	sweep := sub(c.config, "sweep")
	sweep["runs"] = []any{map[string]any{"combo": "w1_1k_1k", "concurrency": 64}, map[string]any{"combo": "w1_1k_1k", "concurrency": 128}}
	watched := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(watched)
		var seen, frozen time.Time
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			switch out := c.out.String(); {
			case seen.IsZero() && c.runs("benchmark_serving", "--max-concurrency\x00128"):
				seen = time.Now()
			case frozen.IsZero() && !seen.IsZero() && time.Since(seen) > time.Second:
				c.lab.Freeze(0, true)
				frozen = time.Now()
			case !frozen.IsZero() && strings.Contains(out, "cell 2 of 2  w1_1k_1k-conc128  failed"):
				if took := time.Since(frozen); took > 2*time.Minute {
					t.Errorf("noticed after %v", took)
				}
				c.lab.Freeze(0, false)
				return
			}
		}
	}()
	c.expect(4, "NO RESULT", "1 measured")
	// Which command noticed depends on the moment; each names host and phase.
	if out, host := c.out.String(), c.lab.Addr(0); !strings.Contains(out, host+": connection lost during ") &&
		!strings.Contains(out, host+": no answer during ") && !strings.Contains(out, "may still be running") {
		t.Error("the loss is not said")
	}
	close(done)
	<-watched
	c.quiet()
}

func TestCaseContainerOfThatName(t *testing.T) { // c264
	t.Parallel()
	tests := []struct {
		name, container string
		labels          map[string]string
		code            int
		says            []string
		stays           bool
	}{
		{"foreign", "atom_demo", nil, 4, []string{"container named atom_demo already exists", "created", "was not started by cvs"}, true},
		{"ours", "atom_demo", map[string]string{"cvs.run_id": "run-123"}, 0, []string{"was left over from run run-123 and is removed"}, false},
		{"substring", "atom_demo_old", nil, 0, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newRunCase(t, "c264-foreign-container-of-that-name", 1, lab.Faults{})
			_, err := c.lab.PlantContainer(0, tt.container, tt.labels)
			check(t, err)
			c.expect(tt.code, tt.says...)
			want := ""
			if tt.stays {
				want = tt.container
			}
			if got := c.containers(0); got != want {
				t.Errorf("containers after the run: %q, want %q", got, want)
			}
		})
	}
}

func TestCaseTokenNeverVisible(t *testing.T) { // c266
	t.Parallel()
	for _, failing := range []bool{false, true} {
		t.Run(fmt.Sprint("failing=", failing), func(t *testing.T) {
			t.Parallel()
			c := newRunCase(t, "c266-token-never-visible", 1, lab.Faults{ServerDiesAtStart: failing})
			stop, over := make(chan struct{}), make(chan struct{})
			served := false
			go func() { // looks over the shoulder of everyone who may list processes
				defer close(over)
				for {
					ids, _ := c.lab.Processes()
					for _, id := range ids {
						line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id))
						if bytes.Contains(line, []byte(caseToken)) {
							t.Errorf("in a process list: %q", line)
						}
						vars, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", id))
						served = served || bytes.Contains(line, []byte("openai_server")) && bytes.HasPrefix(line, []byte("python")) &&
							bytes.Contains(append([]byte{0}, vars...), []byte("\x00HF_TOKEN="+caseToken+"\x00"))
					}
					select {
					case <-stop:
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
			}()
			code := 0
			if failing {
				code = 4
			}
			c.expect(code)
			close(stop)
			<-over
			if !served && !failing {
				t.Error("no server was seen with HF_TOKEN")
			}
			if strings.Contains(c.out.String(), caseToken) {
				t.Error("the token is in the output")
			}
			for _, dir := range []string{filepath.Join(c.dir, "work"), c.lab.NodeDir(0)} {
				if where := finds(t, dir, caseToken); len(where) > 0 {
					t.Errorf("the token is in %q", where)
				}
			}
			c.quiet()
		})
	}
	c := newRunCase(t, "c266-token-never-visible", 1, lab.Faults{})
	check(t, os.Remove(filepath.Join(c.dir, "hf_token")))
	c.expect(2, "hf_token_file")
	if _, err := os.Stat(filepath.Join(c.dir, "work", "cvs_runs")); err == nil {
		t.Error("a run was started without its token")
	}
}

func TestCaseOldArtifact(t *testing.T) { // c268
	t.Parallel()
	c := newRunCase(t, "c268-old-artifact-left-on-the-node", 1, lab.Faults{Client: lab.ClientFails})
	var hosts map[string]struct {
		Files map[string]string `json:"files"`
	}
	mustJSON(t, readFile(t, filepath.Join(casesDir(), "c268-old-artifact-left-on-the-node", "fake_host.json")), &hosts)
	old := hosts["192.0.2.11"].Files["@CELL_OUT@/results.json"]
	if !strings.Contains(old, "2048.0") {
		t.Fatal("the case has another artefact")
	}
	// Where the existing suite leaves it; ours has the run's id in the path.
	dir := filepath.Join(filepath.Dir(c.lab.TokenFile()), "LOGS", "atom", "out-node0", "isl1024_osl1024_conc128")
	check(t, os.MkdirAll(dir, 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "results.json"), []byte(old), 0o600))
	c.expect(4, "NO RESULT", "the client ended with exit status 1", "Traceback")
	if strings.Contains(c.out.String(), "2048") {
		t.Error("the old throughput is in the output")
	}
	if where := finds(t, filepath.Join(c.dir, "work"), "2048.0"); len(where) > 0 {
		t.Errorf("the old throughput is in %q", where)
	}
	c.quiet()
}

func TestCaseAgentWithManyKeys(t *testing.T) { // c269
	t.Parallel()
	c := newRunCase(t, "c269-agent-with-many-keys", 1, lab.Faults{})
	ring := agent.NewKeyring()
	for range 10 {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		check(t, err)
		check(t, ring.Add(agent.AddedKey{PrivateKey: &key}))
	}
	dir, err := os.MkdirTemp("", "ag") // short: a socket's name has a limit
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn) }()
		}
	}()
	c.env["SSH_AUTH_SOCK"] = socket
	c.expect(0)
	c.quiet()

	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("secret"))
	check(t, err)
	locked := filepath.Join(c.dir, "locked")
	check(t, os.WriteFile(locked, pem.EncodeToMemory(block), 0o600))
	c.cluster["priv_key_file"], c.out = locked, &lockedBuffer{}
	c.expect(2, "passphrase")

	open := filepath.Join(c.dir, "open")
	check(t, os.WriteFile(open, []byte(readFile(t, c.lab.KeyFile())), 0o644))
	check(t, os.Chmod(open, 0o644))
	c.cluster["priv_key_file"], c.out = open, &lockedBuffer{}
	c.expect(2, "key file "+open)

	// one answer names the token and the key; nothing was started or stored
	sub(c.config, "paths")["hf_token_file"] = filepath.Join(c.dir, "no_token")
	c.out = &lockedBuffer{}
	c.expect(2, "key file "+open, "no_token")
	if runs, err := filepath.Glob(filepath.Join(c.dir, "work", "cvs_runs", "2*")); err != nil || len(runs) != 1 {
		t.Errorf("runs %q (%v), want the one that was carried out", runs, err)
	}
}

// brokenDocker has docker run fail on a node as fake_host.json says.
func (c *runCase) brokenDocker(node int) {
	c.t.Helper()
	file := filepath.Join(c.lab.NodeDir(node), "bin", "docker")
	target, err := filepath.EvalSymlinks(file)
	check(c.t, err)
	check(c.t, os.Remove(file))
	script := fmt.Sprintf("#!/bin/bash\nif [ \"$1\" = run ]; then echo 'docker: Error response from daemon: No such image: registry.example/atom:1.2.3' >&2; exit 125; fi\nexec -a docker '%s' \"$@\"\n", target)
	check(c.t, os.WriteFile(file, []byte(script), 0o755))
}

func TestCaseOneNodeFails(t *testing.T) { // c270
	t.Parallel()
	t.Run("per_run", func(t *testing.T) {
		t.Parallel()
		c := newRunCase(t, "c270-one-node-fails-to-start", 2, lab.Faults{})
		c.brokenDocker(1)
		c.expect(4, c.lab.Addr(1), "No such image: registry.example/atom:1.2.3")
		if strings.Contains(c.out.String(), "server_start") {
			t.Error("a server was started")
		}
		c.quiet()
	})
	t.Run("no_launch", func(t *testing.T) {
		t.Parallel()
		c := newRunCase(t, "c270-one-node-fails-to-start", 2, lab.Faults{})
		sub(c.config, "container")["lifetime"] = "no_launch"
		_, err := c.lab.PlantContainer(0, "atom_demo", nil)
		check(t, err)
		c.expect(4, c.lab.Addr(1), "container atom_demo does not exist, and lifetime no_launch starts none")
		if got := c.containers(0); got != "atom_demo" {
			t.Errorf("containers on the first node: %q", got)
		}
	})
}
