package lab

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	// Shims of one node run at the same time; names must be claimed once.
	"github.com/gofrs/flock"
)

// A container is one record under containers/, with the field names of docker
// inspect, so that formats written for Docker work on it.
type container struct {
	ID         string `json:"Id"`
	Name       string // with the leading slash
	Created    time.Time
	Image      string // id of the image
	State      containerState
	Config     containerConfig
	HostConfig hostConfig
	Mounts     []mount
}

type containerState struct {
	Status     string // running, exited
	Running    bool
	Pid        int
	ExitCode   int
	StartedAt  time.Time
	FinishedAt time.Time
}

type containerConfig struct {
	Hostname   string
	User       string
	Env        []string
	Cmd        []string
	Image      string // as given to docker run
	WorkingDir string
	Labels     map[string]string
}

type hostConfig struct {
	Binds       []string
	NetworkMode string
	IpcMode     string
	Privileged  bool
	ShmSize     string
	CapAdd      []string
	SecurityOpt []string
	GroupAdd    []string
	Ulimits     []string
	Devices     []string
	AutoRemove  bool
	Other       map[string][]string `json:",omitempty"` // accepted options without a field of their own
}

type mount struct {
	Type, Source, Destination, Mode string
	RW                              bool
}

// An image is one row of images.json.
type image struct {
	Repository, Tag string
	ID              string `json:"Id"`
	RepoTags        []string
	RepoDigests     []string
	Created         time.Time
	Architecture    string
	Os              string
	Size            int64
}

// dockerStore is the daemon's state of one node.
type dockerStore struct {
	dir     string // <node>/containers
	session string
}

func (d dockerStore) lock() (*flock.Flock, error) {
	l := flock.New(filepath.Join(d.dir, ".lock"))
	if err := l.Lock(); err != nil {
		return nil, fmt.Errorf("locking the container store: %w", err)
	}
	return l, nil
}

// list returns all containers, newest first, with their present state.
func (d dockerStore) list() ([]container, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, fmt.Errorf("reading the container store: %w", err)
	}
	var all []container
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(d.dir, e.Name(), "config.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // being created or removed at this moment
		}
		if err != nil {
			return nil, fmt.Errorf("reading the container store: %w", err)
		}
		var c container
		if err := json.Unmarshal(data, &c); err != nil {
			return nil, fmt.Errorf("reading container %s: %w", e.Name(), err)
		}
		d.refresh(&c)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b container) int { return b.Created.Compare(a.Created) })
	return all, nil
}

// refresh looks whether the main process still lives.
func (d dockerStore) refresh(c *container) {
	if !c.State.Running || c.State.Pid == 0 {
		return // a planted record without a process
	}
	if !carries(c.State.Pid, envContainer+"="+c.ID) {
		c.State.Running, c.State.Status, c.State.ExitCode = false, "exited", 137
	}
}

func (d dockerStore) save(c container) error {
	dir := filepath.Join(d.dir, c.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("recording the container: %w", err)
	}
	if err := writeJSON(filepath.Join(dir, "config.json"), c); err != nil {
		return fmt.Errorf("recording the container: %w", err)
	}
	return nil
}

func (d dockerStore) logPath(c container) string { return filepath.Join(d.dir, c.ID, "log") }

// find looks a container up by name, id or a unique prefix of the id.
func (d dockerStore) find(ref string) (container, bool, error) {
	all, err := d.list()
	if err != nil {
		return container{}, false, err
	}
	var byPrefix []container
	for _, c := range all {
		if c.ID == ref || c.Name == "/"+strings.TrimPrefix(ref, "/") {
			return c, true, nil
		}
		if ref != "" && strings.HasPrefix(c.ID, ref) {
			byPrefix = append(byPrefix, c)
		}
	}
	if len(byPrefix) == 1 {
		return byPrefix[0], true, nil
	}
	return container{}, false, nil
}

// stop ends every process of the container and records it.
func (d dockerStore) stop(ctx context.Context, c container, grace time.Duration) error {
	if err := killMarked(ctx, envContainer+"="+c.ID, grace, os.Getpid()); err != nil {
		return err
	}
	c.State.Running, c.State.Status, c.State.ExitCode, c.State.FinishedAt = false, "exited", 137, time.Now().UTC()
	return d.save(c)
}

func (d dockerStore) remove(ctx context.Context, c container) error {
	if err := killMarked(ctx, envContainer+"="+c.ID, 0, os.Getpid()); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(d.dir, c.ID))
}

func (d dockerStore) images() ([]image, error) {
	data, err := os.ReadFile(filepath.Join(d.dir, "images.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the image store: %w", err)
	}
	var all []image
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("reading the image store: %w", err)
	}
	return all, nil
}

func (d dockerStore) findImage(ref string) (image, bool, error) {
	all, err := d.images()
	if err != nil {
		return image{}, false, err
	}
	repo, tag := splitImage(ref)
	for _, im := range all {
		if im.Repository == repo && (im.Tag == tag || strings.Contains(ref, "@")) || im.ID == ref || strings.TrimPrefix(im.ID, "sha256:") == ref {
			return im, true, nil
		}
	}
	return image{}, false, nil
}

// addImage records an image. Ids and digests follow from the name, so the same
// image has the same digest on every node, as if one registry had served it.
func (d dockerStore) addImage(ref string) (image, error) {
	if im, ok, err := d.findImage(ref); err != nil || ok {
		return im, err
	}
	repo, tag := splitImage(ref)
	digest := "sha256:" + hash("digest "+repo+":"+tag)
	if _, given, ok := strings.Cut(ref, "@"); ok {
		digest = given
	}
	im := image{
		Repository: repo, Tag: tag, ID: "sha256:" + hash("image "+repo+":"+tag), RepoTags: []string{repo + ":" + tag},
		RepoDigests: []string{repo + "@" + digest}, Created: time.Unix(1790000000, 0).UTC(), Architecture: "amd64", Os: "linux", Size: 1 << 30,
	}
	all, err := d.images()
	if err != nil {
		return im, err
	}
	return im, writeJSON(filepath.Join(d.dir, "images.json"), append(all, im))
}

func splitImage(ref string) (repo, tag string) {
	ref, _, _ = strings.Cut(ref, "@")
	slash := strings.LastIndexByte(ref, '/')
	if i := strings.LastIndexByte(ref, ':'); i > slash {
		return ref[:i], ref[i+1:]
	}
	return ref, "latest"
}

func hash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func randomID() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
