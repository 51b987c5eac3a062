package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// systemDirs are what a node has of the machine, read-only: its programs,
// libraries and configuration.
var systemDirs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "nix", "gnu"}

// plainDevices are the machine's that every process needs; binding them is the
// only way to have devices without privileges.
var plainDevices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// A root is a folder being furnished as the root of a mount namespace.
type root struct{ dir string }

// newRoot starts a root; nothing outside its mount namespace will see its mounts.
func newRoot(dir string) (root, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return root{}, fmt.Errorf("private mounts: %w", err)
	}
	for _, sub := range []string{"", "dev", "proc", "sys", "run", "var", "home", "mnt", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return root{}, err
		}
	}
	for _, sub := range []string{"tmp", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return root{}, err
		}
		if err := os.Chmod(filepath.Join(dir, sub), 0o777|os.ModeSticky); err != nil {
			return root{}, err
		}
	}
	// A root has to be a mount point.
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return root{}, fmt.Errorf("mounting %s: %w", dir, err)
	}
	r := root{dir}
	// Folders below /opt one by one, so that there is room for a node's own.
	opt, err := os.ReadDir("/opt")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return root{}, err
	}
	names := systemDirs
	for _, e := range opt {
		if e.IsDir() {
			names = append(names[:len(names):len(names)], "opt/"+e.Name())
		}
	}
	for _, name := range names {
		if err := r.system(name); err != nil {
			return root{}, err
		}
	}
	return r, nil
}

// system shows one of the machine's folders read-only, or repeats its link.
func (r root) system(name string) error {
	from, to := "/"+name, filepath.Join(r.dir, name)
	st, err := os.Lstat(from)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		// Relative, so that it means this root while that is being furnished.
		err = os.Symlink(strings.TrimLeft(target, "/"), to)
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	return r.bind(bind{Source: from, Target: from, ReadOnly: true})
}

// bind shows a path of the outer root inside; missing targets are made.
func (r root) bind(b bind) error {
	st, err := os.Stat(b.Source)
	if err != nil {
		return fmt.Errorf("mounting %s: %w", b.Source, err)
	}
	to := filepath.Join(r.dir, b.Target)
	if st.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else {
		err = touch(to)
	}
	if err != nil {
		return fmt.Errorf("mounting %s at %s: %w", b.Source, b.Target, err)
	}
	if err := unix.Mount(b.Source, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", b.Source, b.Target, err)
	}
	if b.ReadOnly {
		return readOnly(to)
	}
	return nil
}

func touch(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o644)
}

// readOnly closes a mount and everything below it for writing. The older
// remount would reach only the topmost mount.
func readOnly(path string) error {
	err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
	if errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("read-only mounts need Linux 5.12: %w", err)
	}
	if err != nil {
		return fmt.Errorf("making %s read-only: %w", path, err)
	}
	return nil
}

// devices furnishes /dev. Its shm is a folder: it must be the same for every
// process of a container, each of which has its own mounts.
func (r root) devices() error {
	for _, name := range plainDevices {
		p := "/dev/" + name
		if _, err := os.Stat(p); err != nil {
			continue
		}
		if err := r.bind(bind{Source: p, Target: p}); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, filepath.Join(r.dir, "dev", name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	shm := filepath.Join(r.dir, "dev", "shm")
	if err := os.MkdirAll(shm, 0o755); err != nil {
		return err
	}
	return os.Chmod(shm, 0o777|os.ModeSticky)
}

// enter makes it the root of this process and drops the outer one.
func (r root) enter() error {
	if err := os.Chdir(r.dir); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the outer root: %w", err)
	}
	return os.Chdir("/")
}

// nodeRoot furnishes a node's root and enters it.
func nodeRoot(spec nodeSpec) error {
	r, err := newRoot(filepath.Join(spec.Dir, "rootfs"))
	if err != nil {
		return err
	}
	if err := r.devices(); err != nil {
		return err
	}
	proc := filepath.Join(r.dir, "proc")
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// Root of the machine stays its own user in the namespace and could write here.
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus"} {
		p := filepath.Join(proc, name)
		if _, err := os.Stat(p); err != nil {
			continue
		}
		if err := unix.Mount(p, p, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mounting /proc/%s: %w", name, err)
		}
		if err := readOnly(p); err != nil {
			return err
		}
	}
	binds := []bind{
		{Source: spec.Dir, Target: spec.Dir}, {Source: filepath.Join(spec.Dir, "home"), Target: isolatedHome},
		{Source: filepath.Join(spec.Lab, "models"), Target: "/models", ReadOnly: true},
		{Source: spec.Executable, Target: spec.Executable, ReadOnly: true},
	}
	for _, dir := range spec.shared() {
		binds = append(binds, bind{Source: dir, Target: dir})
	}
	if p := "/sys/devices/system"; dirExists(p) { // processors and memory
		binds = append(binds, bind{Source: p, Target: p, ReadOnly: true})
	}
	if hosts := filepath.Join(spec.Dir, "hosts"); fileExists("/etc/hosts") && fileExists(hosts) {
		binds = append(binds, bind{Source: hosts, Target: "/etc/hosts", ReadOnly: true})
	}
	for _, b := range binds {
		if err := r.bind(b); err != nil {
			return err
		}
	}
	if err := hardwareFiles(r.dir); err != nil {
		return err
	}
	return r.enter()
}

func dirExists(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

func fileExists(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// hardwareFiles puts the files there by which GPUs and adapters are found.
func hardwareFiles(dir string) error {
	files := []string{"dev/kfd", "dev/infiniband/rdma_cm"}
	for i := range nodeGPUs {
		files = append(files, fmt.Sprintf("dev/dri/card%d", i), fmt.Sprintf("dev/dri/renderD%d", 128+i))
	}
	for i := range nodeHCAs {
		files = append(files, fmt.Sprintf("dev/infiniband/uverbs%d", i), "sys/class/infiniband/"+hcaName(i)+"/node_type")
	}
	for _, f := range files {
		if err := touch(filepath.Join(dir, f)); err != nil {
			return err
		}
	}
	version := filepath.Join(dir, "opt/rocm/.info/version")
	if dirExists(filepath.Join(dir, "opt/rocm")) {
		return nil // the machine's
	}
	if err := touch(version); err != nil {
		return err
	}
	return os.WriteFile(version, []byte(rocmVersion+"\n"), 0o644)
}

// containerRoot furnishes a container's root and enters it.
func containerRoot(spec containerSpec) error {
	r, err := newRoot(spec.Root)
	if err != nil {
		return err
	}
	binds := []bind{{Source: "/proc", Target: "/proc"}, {Source: "/sys", Target: "/sys", ReadOnly: true}}
	if spec.AllDevices {
		binds = append(binds, bind{Source: "/dev", Target: "/dev"})
	} else if err := r.devices(); err != nil {
		return err
	}
	binds = append(binds, spec.Devices...)
	binds = append(binds, spec.Binds...)
	binds = append(binds, bind{Source: spec.Node, Target: spec.Node}, bind{Source: spec.Executable, Target: spec.Executable, ReadOnly: true})
	for _, b := range binds {
		if err := r.bind(b); err != nil {
			return err
		}
	}
	return r.enter()
}
