package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"cvs/collect/plan"
)

// A State is what docker says about a container of a given name.
type State struct {
	Present bool
	Running bool
	ID      string
	Labels  map[string]string
	Image   string
	Created time.Time // zero when docker did not say
}

// ErrDocker reports that docker itself did not answer properly, so that nothing
// is known about the thing asked for.
var ErrDocker = errors.New("docker did not answer")

// ParseContainer reads the answer to [Docker.Inspect]. A container that is not
// there is a State; an answer that cannot be trusted is an error.
func ParseContainer(exit int, stdout, stderr []byte) (State, error) {
	if exit != 0 {
		if noSuch(stderr) {
			return State{}, nil
		}
		return State{}, failure(exit, stderr)
	}
	var docs []struct {
		ID      string `json:"Id"`
		Created string
		Config  struct {
			Labels map[string]string
			Image  string
		}
		State struct{ Running bool }
	}
	if err := json.Unmarshal(stdout, &docs); err != nil {
		return State{}, fmt.Errorf("%w: docker inspect: %w", ErrDocker, err)
	}
	if len(docs) != 1 {
		return State{}, fmt.Errorf("%w: docker inspect describes %d containers, expected one", ErrDocker, len(docs))
	}
	d := docs[0]
	created, err := time.Parse(time.RFC3339Nano, d.Created)
	if err != nil {
		created = time.Time{} // only used in messages
	}
	return State{Present: true, Running: d.State.Running, ID: d.ID, Labels: d.Config.Labels,
		Image: d.Config.Image, Created: created}, nil
}

// An Image is what docker says about an image.
type Image struct {
	Present bool
	ID      string
	// Digest is the registry's digest, or the image's own id for an image that
	// never was in a registry.
	Digest string
}

// ParseImage reads the answer to [Docker.InspectImage].
func ParseImage(exit int, stdout, stderr []byte) (Image, error) {
	if exit != 0 {
		if noSuch(stderr) {
			return Image{}, nil
		}
		return Image{}, failure(exit, stderr)
	}
	var docs []struct {
		ID          string `json:"Id"`
		RepoDigests []string
	}
	if err := json.Unmarshal(stdout, &docs); err != nil {
		return Image{}, fmt.Errorf("%w: docker image inspect: %w", ErrDocker, err)
	}
	if len(docs) != 1 {
		return Image{}, fmt.Errorf("%w: docker image inspect describes %d images, expected one", ErrDocker, len(docs))
	}
	img := Image{Present: true, ID: docs[0].ID, Digest: docs[0].ID}
	if len(docs[0].RepoDigests) > 0 {
		if _, digest, ok := strings.Cut(docs[0].RepoDigests[0], "@"); ok {
			img.Digest = digest
		}
	}
	return img, nil
}

// noSuch recognises docker's words for something that is not there; docker gives
// the same exit status for that and for a daemon that does not run.
func noSuch(stderr []byte) bool {
	s := strings.ToLower(string(stderr))
	return strings.Contains(s, "no such container") || strings.Contains(s, "no such object") ||
		strings.Contains(s, "no such image")
}

func failure(exit int, stderr []byte) error {
	msg := strings.TrimSpace(string(stderr))
	if len(msg) > 500 {
		msg = "…" + msg[len(msg)-500:]
	}
	if msg == "" {
		msg = "no message"
	}
	return fmt.Errorf("%w (exit status %d): %s", ErrDocker, exit, msg)
}

// An Action is what a run does about the container it was told to use.
type Action int

// The actions.
const (
	Attach   Action = iota // use the running container as it is
	Launch                 // start one
	Relaunch               // remove a left-over, then start one
)

// Decide says what to do about a container, by its lifetime and by what was
// found. The error says why nothing may be done. Force takes over a container
// that is not ours.
func Decide(c plan.Container, s State, me Identity, force bool, now time.Time) (Action, error) {
	switch c.Lifetime {
	case plan.NoLaunch:
		if !s.Present {
			return 0, fmt.Errorf("container %s does not exist, and lifetime no_launch starts none", c.Name)
		}
		if !s.Running {
			return 0, fmt.Errorf("container %s exists but does not run, and lifetime no_launch starts none", c.Name)
		}
		return Attach, nil
	case plan.Persistent, plan.PerRun:
	default:
		return 0, fmt.Errorf("unknown container lifetime %q", c.Lifetime)
	}
	if !s.Present {
		return Launch, nil
	}
	if err := ours(c.Name, s, me, now); err != nil && !force {
		return 0, err
	}
	if c.Lifetime == plan.Persistent && s.Running {
		if s.Image != "" && s.Image != c.Image && !force {
			return 0, fmt.Errorf("persistent container %s runs image %s, the config names %s: remove it or change the config", c.Name, s.Image, c.Image)
		}
		return Attach, nil
	}
	return Relaunch, nil
}

// ours is nil for a container that this launcher's owner started with cvs.
func ours(name string, s State, me Identity, now time.Time) error {
	run, owner := s.Labels[LabelRunID], s.Labels[LabelOwner]
	state := "stopped"
	if s.Running {
		state = "running"
	}
	age := "of unknown age"
	if !s.Created.IsZero() {
		age = "created " + now.Sub(s.Created).Round(time.Second).String() + " ago"
	}
	switch {
	case run == "":
		return fmt.Errorf("a container named %s already exists (%s, %s) and was not started by cvs; it is left alone: choose another container.name, remove it yourself, or use --force", name, state, age)
	case owner != "" && owner != me.Owner:
		return fmt.Errorf("a container named %s already exists (%s, %s); it belongs to %s, run %s, and is left alone: choose another container.name, or use --force", name, state, age, owner, run)
	}
	return nil
}

// A Removal is what is known after an attempt to remove a container.
type Removal int

// The outcomes of a removal. A node that does not answer is Unknown, never
// Removed.
const (
	Removed Removal = iota
	StillThere
	Unknown
)

// String names the outcome as messages do.
func (r Removal) String() string {
	switch r {
	case Removed:
		return "removed"
	case StillThere:
		return "still there"
	}
	return "unknown"
}

// Outcome turns the inspection after a removal into its outcome.
func Outcome(s State, err error) Removal {
	switch {
	case err != nil:
		return Unknown
	case s.Present:
		return StillThere
	}
	return Removed
}
