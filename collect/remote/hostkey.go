package remote

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	// skeema/knownhosts: x/crypto's own knows no key types of a host and reports
	// a change when the server merely prefers another of its keys.
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// knownHosts reads the known_hosts files that exist.
func (c Config) knownHosts() (*knownhosts.HostKeyDB, error) {
	var files []string
	for _, f := range c.KnownHostsFiles {
		fi, err := os.Stat(f)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, inputError{fmt.Errorf("known hosts: %w", err)}
		case fi.Mode().IsRegular(): // /dev/null is an empty file
			files = append(files, f)
		}
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, inputError{fmt.Errorf("known hosts: %w", err)}
	}
	return db, nil
}

// A keyCheck decides about one host's key.
type keyCheck struct {
	cfg      Config
	host     string // for messages
	lookup   string // host:port in the known_hosts files
	db       *knownhosts.HostKeyDB
	notices  []string
	rejected error // what check returned; the handshake's error may hide it
}

// check is the handshake's callback.
func (k *keyCheck) check(_ string, remote net.Addr, key ssh.PublicKey) error {
	if k.cfg.SkipHostKeyCheck {
		k.notices = append(k.notices, fmt.Sprintf("%s: host key %s %s was NOT checked", k.host, key.Type(), ssh.FingerprintSHA256(key)))
		return nil
	}
	k.rejected = k.judge(remote, key)
	return k.rejected
}

func (k *keyCheck) judge(remote net.Addr, key ssh.PublicKey) error {
	err := k.db.HostKeyCallback()(k.lookup, remote, key)
	var keyErr *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return &HostKeyChangedError{Host: k.host, KeyType: key.Type(), Fingerprint: ssh.FingerprintSHA256(key), Revoked: true}
	case !errors.As(err, &keyErr):
		return err
	case len(keyErr.Want) > 0:
		e := &HostKeyChangedError{Host: k.host, KeyType: key.Type(), Fingerprint: ssh.FingerprintSHA256(key)}
		for _, w := range keyErr.Want {
			e.Known = append(e.Known, fmt.Sprintf("%s:%d", w.Filename, w.Line))
		}
		return e
	case !k.cfg.AcceptNew:
		return &UnknownHostKeyError{Host: k.host, KeyType: key.Type(), Fingerprint: ssh.FingerprintSHA256(key), Files: k.cfg.KnownHostsFiles}
	case len(k.cfg.KnownHostsFiles) == 0:
		return inputError{fmt.Errorf("%s: no known_hosts file to add the new host key to", k.host)}
	}
	file := k.cfg.KnownHostsFiles[0]
	if err := appendKnownHost(file, k.lookup, key); err != nil {
		return inputError{fmt.Errorf("add host key to known hosts: %w", err)}
	}
	k.notices = append(k.notices, fmt.Sprintf("%s: new host key %s %s accepted and added to %s", k.host, key.Type(), ssh.FingerprintSHA256(key), file))
	return nil
}

// appendKnownHost adds one line in one write, so that several launchers may do
// so at once.
func appendKnownHost(file, lookup string, key ssh.PublicKey) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	line := xknownhosts.Line([]string{lookup}, key) + "\n"
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	last := []byte{'\n'}
	if fi.Size() > 0 {
		if _, err := f.ReadAt(last, fi.Size()-1); err != nil {
			return err
		}
	}
	if last[0] != '\n' {
		line = "\n" + line
	}
	if _, err = f.WriteString(line); err != nil {
		return err
	}
	return f.Sync()
}
