package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// maxSSHConfig bounds what "ssh -G" prints, in bytes.
const maxSSHConfig = 1 << 20

// ResolveSSHConfig asks the ssh program what a client configuration file says
// about one address, because only ssh itself understands all of Match, Include
// and its tokens. User is who is going to log in, "" for whoever the file says;
// Match blocks may ask for it. It returns the address, user, key files and whether
// they are all to be offered, known_hosts files and alias to use; without either User is the local user's name. Jump is
// the ProxyJump entry as written, "" for none: the caller dials it and sets
// Config.Dialer. A ProxyCommand is refused, since it is a program to run here.
// Home is what "~" stands for.
func ResolveSSHConfig(ctx context.Context, file, home, user, addr string) (c Config, jump string, err error) {
	host, hostPort, err := splitAddr(addr)
	if err != nil {
		return Config{}, "", inputError{err}
	}
	args := []string{"-G", "-F", file}
	if host != addr && addr != "["+host+"]" {
		_, port, err := net.SplitHostPort(hostPort)
		if err != nil {
			return Config{}, "", inputError{err}
		}
		args = append(args, "-p", port)
	}
	if user != "" {
		args = append(args, "-l", user)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // Match exec runs programs
	defer cancel()
	cmd := exec.CommandContext(ctx, "ssh", append(args, "--", host)...)
	stdout, stderr := &headBuffer{limit: maxSSHConfig}, &tailBuffer{limit: 4 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return Config{}, "", inputError{fmt.Errorf("ssh configuration %s for %s: %w: %s", file, addr, err, lastLine(stderr.buf))}
	}
	c, jump, err = parseSSHConfig(stdout.buf, home)
	if err != nil {
		return Config{}, "", inputError{fmt.Errorf("ssh configuration %s for %s: %w", file, addr, err)}
	}
	// The key files that ssh would try by default are listed as well.
	var files []string
	for _, f := range c.KeyFiles {
		for _, name := range []string{f, f + ".pub"} { // the agent may hold what is not there
			if _, err := os.Stat(name); err == nil {
				files = append(files, f)
				break
			}
		}
	}
	c.KeyFiles = files
	return c, jump, nil
}

// parseSSHConfig reads the output of "ssh -G".
func parseSSHConfig(out []byte, home string) (c Config, jump string, err error) {
	var host, port string
	expand := func(p string) string {
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			return filepath.Join(home, rest)
		}
		return p
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), " ")
		switch key {
		case "hostname":
			host = value
		case "port":
			port = value
		case "user":
			c.User = value
		case "identityfile":
			c.KeyFiles = append(c.KeyFiles, expand(value))
		case "identitiesonly":
			c.IdentitiesOnly = value == "yes"
		case "userknownhostsfile", "globalknownhostsfile":
			for _, f := range strings.Fields(value) {
				if f != "none" {
					c.KnownHostsFiles = append(c.KnownHostsFiles, expand(f))
				}
			}
		case "hostkeyalias":
			c.HostKeyAlias = value
		case "proxyjump":
			if value != "none" {
				jump = value
			}
		case "proxycommand":
			if value != "none" {
				return Config{}, "", errors.New("ProxyCommand is not supported; use ProxyJump")
			}
		}
	}
	if err := lines.Err(); err != nil {
		return Config{}, "", err
	}
	if host == "" || port == "" {
		return Config{}, "", errors.New("ssh -G names no host and port")
	}
	c.Addr = net.JoinHostPort(host, port)
	_, _, err = splitAddr(c.Addr)
	return c, jump, err
}
