package lab

import (
	"fmt"
	"os"
	"path/filepath"
)

// SetFaults replaces the faults of node i; what starts from now on sees them.
func (l *Lab) SetFaults(i int, f Faults) error {
	if err := writeFaults(l.NodeDir(i), f); err != nil {
		return fmt.Errorf("setting the faults of node %d: %w", i, err)
	}
	return nil
}

// DropConnections cuts every SSH connection of node i. As with OpenSSH the
// commands they had started go on.
func (l *Lab) DropConnections(i int) { l.nodes[i].dropConnections() }

// Unplug cuts node i off: its SSH connections break and new ones are closed at
// once, until it is plugged in again. What runs on it goes on.
func (l *Lab) Unplug(i int, off bool) { l.nodes[i].unplug(off) }

// Freeze makes node i mute, or lets it speak again: connections stay open and
// nothing passes, as in a network that swallows packets.
func (l *Lab) Freeze(i int, on bool) { l.nodes[i].freeze(on) }

// PlantContainer puts a running container of somebody else on node i, with
// those labels, and returns its id. It has no process.
func (l *Lab) PlantContainer(i int, name string, labels map[string]string) (string, error) {
	im, err := l.store(i).addImage(DemoImage)
	if err != nil {
		return "", fmt.Errorf("planting a container: %w", err)
	}
	c := newContainer(randomID(), name, im, dockerArgs{opts: map[string][]string{}, rest: []string{DemoImage, "sleep", "infinity"}}, nil)
	for k, v := range labels {
		c.Config.Labels[k] = v
	}
	if err := l.store(i).save(c); err != nil {
		return "", fmt.Errorf("planting a container: %w", err)
	}
	return c.ID, nil
}

// RemoveContainer takes a planted container off node i, by its id.
func (l *Lab) RemoveContainer(i int, id string) error {
	if err := os.RemoveAll(filepath.Join(l.store(i).dir, id)); err != nil {
		return fmt.Errorf("removing a container: %w", err)
	}
	return nil
}
