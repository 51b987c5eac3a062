package remote

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Servers close after six refused keys (MaxAuthTries), and a password needs a
// try as well.
const (
	maxKeyOffers         = 5
	maxOffersAndPassword = 3
	maxKeyFile           = 1 << 20 // bytes
)

// An identity is one key to offer, and what messages call it.
type identity struct {
	signer ssh.Signer
	name   string
}

// identities collects the keys to offer in order: the configured files, then
// the agent's others. The agent is needed until authentication is over; the
// returned function lets go of it. Notices tell what could not be used.
func (c Config) identities() (ids []identity, notices []string, closeAgent func(), err error) {
	closeAgent = func() {}
	var held []ssh.Signer
	if c.AgentSocket != "" {
		conn, err := net.DialTimeout("unix", c.AgentSocket, 5*time.Second)
		if err == nil {
			closeAgent = func() { conn.Close() }
			// An agent may ask its user; it must not hold up for ever.
			err = conn.SetDeadline(time.Now().Add(c.Timeout))
			if err == nil {
				held, err = agent.NewClient(conn).Signers()
			}
		}
		if err != nil {
			notices = append(notices, fmt.Sprintf("SSH agent not used: %v", err))
		}
	}
	offered := map[string]bool{}
	limit := maxKeyOffers
	if c.Password != "" {
		limit = maxOffersAndPassword
	}
	for i, file := range slices.Concat(c.KeyFiles, c.SpareKeyFiles) {
		if i >= len(c.KeyFiles) && len(ids) >= limit {
			notices = append(notices, "not offered, because servers close after six keys: "+file)
			continue
		}
		signer, err := loadKey(file, held)
		if err != nil && i >= len(c.KeyFiles) {
			notices = append(notices, fmt.Sprintf("not offered: %v", err))
			continue
		}
		if err != nil {
			closeAgent()
			return nil, notices, func() {}, err
		}
		if pub := string(signer.PublicKey().Marshal()); !offered[pub] {
			offered[pub] = true
			ids = append(ids, identity{signer, "key file " + file})
		}
	}
	if c.IdentitiesOnly {
		return ids, notices, closeAgent, nil
	}
	for i, s := range held {
		if offered[string(s.PublicKey().Marshal())] {
			continue
		}
		if len(ids) >= limit {
			notices = append(notices, fmt.Sprintf("%d of the SSH agent's %d keys not offered: servers close after six", len(held)-i, len(held)))
			break
		}
		ids = append(ids, identity{s, "agent key " + ssh.FingerprintSHA256(s.PublicKey())})
	}
	return ids, notices, closeAgent, nil
}

// loadKey reads a private key file. A key with a passphrase is taken from the
// agent, and so is one of which only the public half is there, as ssh allows.
func loadKey(file string, held []ssh.Signer) (ssh.Signer, error) {
	if s := publicOnly(file, held); s != nil {
		return s, nil
	}
	fi, err := os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, &KeyFileError{file, "does not exist"}
	case err != nil:
		return nil, &KeyFileError{file, err.Error()}
	case !fi.Mode().IsRegular() || fi.Size() > maxKeyFile:
		return nil, &KeyFileError{file, "is not a private key file"}
	case fi.Mode().Perm()&0o077 != 0:
		return nil, &KeyFileError{file, fmt.Sprintf("its mode %04o lets others use it; chmod 600 it", fi.Mode().Perm())}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, &KeyFileError{file, err.Error()}
	}
	signer, err := ssh.ParsePrivateKey(b)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return signer, nil
	case !errors.As(err, &locked):
		return nil, &KeyFileError{file, "is not a private key this program reads: " + err.Error()}
	}
	pub := locked.PublicKey // nil for the old PEM form
	if text, err := os.ReadFile(file + ".pub"); pub == nil && err == nil {
		pub, _, _, _, _ = ssh.ParseAuthorizedKey(text)
	}
	if s := heldKey(pub, held); s != nil {
		return s, nil
	}
	return nil, &KeyFileError{file, "has a passphrase and no SSH agent holds its key; add it to the agent with ssh-add, or name a key without passphrase"}
}

// publicOnly is the agent's key for a file that is a public key, or that is not
// there while its .pub is; nil if the file is neither or nobody holds the key.
func publicOnly(file string, held []ssh.Signer) ssh.Signer {
	if !strings.HasSuffix(file, ".pub") {
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			return nil
		}
		file += ".pub"
	}
	fi, err := os.Stat(file)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxKeyFile {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil
	}
	return heldKey(pub, held)
}

func heldKey(pub ssh.PublicKey, held []ssh.Signer) ssh.Signer {
	for _, s := range held {
		if pub != nil && bytes.Equal(s.PublicKey().Marshal(), pub.Marshal()) {
			return s
		}
	}
	return nil
}

// Check reports what is wrong with the settings without connecting anywhere:
// address, key files, known_hosts files. Its errors match ErrInput.
func (c Config) Check() error {
	_, _, err := splitAddr(c.Addr)
	if err != nil {
		err = inputError{err}
	}
	_, _, closeAgent, kerr := c.withDefaults().identities()
	closeAgent()
	_, herr := c.knownHosts()
	return errors.Join(err, kerr, herr)
}

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.KeepAlive <= 0 {
		c.KeepAlive = DefaultKeepAlive
	}
	if c.Dialer == nil {
		c.Dialer = (&net.Dialer{}).DialContext
	}
	return c
}
