package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// ErrTooLarge reports a remote file that is larger than the caller takes.
var ErrTooLarge = errors.New("file is too large")

// The exit statuses by which the scripts below say what no message can say in
// every language.
const (
	exitNoFile  = 44
	exitNotFile = 45
	exitSize    = 46
)

const fetchScript = `[ -e "$1" ] || exit 44; [ -f "$1" ] || exit 45; exec cat <"$1"`

// FetchArgs is the command that Fetch runs; with a prefix before it, it reads a
// file elsewhere, in a container for example.
func FetchArgs(path string) []string {
	return []string{"sh", "-c", fetchScript, "fetch", path}
}

// Fetch copies a regular file of the host to w, byte for byte, and returns how
// many bytes that were. A missing file is fs.ErrNotExist, one of more than limit
// bytes ErrTooLarge. After an error w holds a part that must not be used.
func (h *Host) Fetch(ctx context.Context, path string, w io.Writer, limit int64) (int64, error) {
	lw := &limitWriter{w: w, left: limit}
	stderr := &tailBuffer{limit: 4 << 10}
	res, err := h.Stream(ctx, Command{Args: FetchArgs(path), Name: "fetch of " + path}, lw, stderr)
	switch {
	case err != nil:
		return lw.n, fmt.Errorf("fetch %s: %w", path, err)
	case res.ExitCode == exitNoFile:
		return 0, fmt.Errorf("fetch %s:%s: %w", h.name, path, fs.ErrNotExist)
	case res.ExitCode == exitNotFile:
		return 0, fmt.Errorf("fetch %s:%s: not a regular file", h.name, path)
	case res.ExitCode != 0:
		return lw.n, fmt.Errorf("fetch %s:%s: status %d: %s", h.name, path, res.ExitCode, lastLine(stderr.bytes()))
	}
	return lw.n, nil
}

// A limitWriter fails instead of writing more than it may.
type limitWriter struct {
	w       io.Writer
	left, n int64
}

func (l *limitWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, ErrTooLarge
	}
	n, err := l.w.Write(p)
	l.left -= int64(n)
	l.n += int64(n)
	return n, err
}

// The size is compared because a connection that breaks looks like the end of
// the input: half a file must not take the place of a whole one.
const putScript = `umask 077; t=$1.cvs-$$
trap 'rm -f -- "$t"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$t" || exit 1
[ "$(wc -c <"$t")" -eq "$3" ] || exit 46
chmod -- "$2" "$t" && mv -f -- "$t" "$1"`

// PutArgs is the command that Put runs, with the data as its standard input; a
// prefix before it writes elsewhere. Size is the number of bytes that will come.
func PutArgs(path string, mode fs.FileMode, size int) []string {
	return []string{"sh", "-c", putScript, "put", absOrDot(path), fmt.Sprintf("%04o", mode.Perm()), strconv.Itoa(size)}
}

// Put writes a file on the host, whole or not at all, with that mode; until it
// is whole nobody else can read it. The data appears in no argument and no
// message, so a secret is written with mode 0600. The folder must exist.
func (h *Host) Put(ctx context.Context, path string, mode fs.FileMode, data []byte) error {
	res, err := h.Run(ctx, Command{
		Args: PutArgs(path, mode, len(data)), Stdin: bytes.NewReader(data),
		MaxOutput: 4 << 10, Name: "writing of " + path,
	})
	switch {
	case err != nil:
		return fmt.Errorf("put %s: %w", path, err)
	case res.ExitCode == exitSize:
		return fmt.Errorf("put %s:%s: the file did not arrive whole", h.name, path)
	case res.ExitCode != 0:
		return fmt.Errorf("put %s:%s: status %d: %s", h.name, path, res.ExitCode, lastLine(res.Stderr))
	}
	return nil
}

// absOrDot keeps a relative path from being read as an option.
func absOrDot(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "./" + path
}

// lastLine is where programs say what was wrong.
func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD")), "\n")
	return lines[len(lines)-1]
}
