package bundle

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Limits bound what a bundle may unpack to.
type Limits struct {
	Files int
	One   int64 // bytes of one member
	Total int64 // bytes of all
	Ratio int64 // unpacked bytes to packed, of a member beyond a megabyte
}

// DefaultLimits are generous for evidence and small for an attack.
func DefaultLimits() Limits {
	return Limits{Files: 200_000, One: 2 << 30, Total: 16 << 30, Ratio: 500}
}

// A HostileError reports a bundle that was not unpacked because of what it
// claims or holds.
type HostileError struct{ Member, Msg string }

// Error names the member.
func (e *HostileError) Error() string {
	if e.Member == "" {
		return "refused: " + e.Msg
	}
	return fmt.Sprintf("refused: %q %s", e.Member, e.Msg)
}

// Extract unpacks the bundle at file into dst, an existing folder. All names and
// claims are checked before the first byte is written, and all sizes again while
// writing; the error is then a *HostileError.
func Extract(ctx context.Context, file, dst string, l Limits) error {
	z, err := zip.OpenReader(file)
	if errors.Is(err, zip.ErrInsecurePath) {
		return errors.Join(&HostileError{Msg: "a member's path leaves the bundle"}, z.Close())
	}
	if err != nil {
		return fmt.Errorf("open bundle %s: %w", file, err)
	}
	defer z.Close()
	if err := vet(z.File, l); err != nil {
		return err
	}
	root, err := os.OpenRoot(dst)
	if err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	defer root.Close()
	left := l.Total
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unpack(root, f, min(l.One, left))
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// vet checks what the directory of the zip claims.
func vet(files []*zip.File, l Limits) error {
	if len(files) > l.Files {
		return &HostileError{Msg: fmt.Sprintf("it has %d members, at most %d are unpacked", len(files), l.Files)}
	}
	var total uint64
	seen := map[string]bool{}
	type span struct {
		from, to int64
		name     string
	}
	var spans []span
	for _, f := range files {
		bad := func(format string, args ...any) error { return &HostileError{f.Name, fmt.Sprintf(format, args...)} }
		folded := strings.ToLower(f.Name) // two names that some file systems take for one
		switch {
		case !fs.ValidPath(f.Name) || f.Name == ".":
			return bad("is no relative path without . and ..")
		case strings.ContainsAny(f.Name, "\\\x00"):
			return bad("holds a character that is not allowed in a path")
		case len(f.Name) > 1024 || strings.Count(f.Name, "/") > 32:
			return bad("is too long or too deep")
		case slices.ContainsFunc(strings.Split(f.Name, "/"), func(s string) bool { return len(s) > 255 }):
			return bad("has a part of more than 255 bytes")
		case seen[folded]:
			return bad("stands twice")
		case !f.Mode().IsRegular():
			return bad("is no regular file")
		case f.Flags&1 != 0:
			return bad("is encrypted")
		case f.Method != zip.Deflate && f.Method != zip.Store:
			return bad("uses compression method %d", f.Method)
		case f.UncompressedSize64 > uint64(l.One):
			return bad("has %d bytes, at most %d are unpacked", f.UncompressedSize64, l.One)
		case f.UncompressedSize64 > 1<<20 && f.UncompressedSize64/uint64(l.Ratio) > f.CompressedSize64:
			return bad("unpacks to more than %d times its size", l.Ratio)
		}
		seen[folded] = true
		if total += f.UncompressedSize64; total > uint64(l.Total) {
			return &HostileError{Msg: fmt.Sprintf("it unpacks to more than %d bytes", l.Total)}
		}
		from, err := f.DataOffset()
		if err != nil {
			return bad("has no readable header: %v", err)
		}
		spans = append(spans, span{from, from + int64(f.CompressedSize64), f.Name})
	}
	// A file may not also be a folder of another.
	for name := range seen {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if seen[dir] {
				return &HostileError{name, "lies below " + dir + ", which is a file"}
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return int(min(max(a.from-b.from, -1), 1)) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to {
			return &HostileError{spans[i].name, "shares its bytes with " + spans[i-1].name}
		}
	}
	return nil
}

func unpack(root *os.Root, f *zip.File, limit int64) (n int64, err error) {
	in, err := f.Open()
	if err != nil {
		return 0, fmt.Errorf("unpack %q: %w", f.Name, err)
	}
	defer in.Close()
	if err := root.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
		return 0, fmt.Errorf("unpack %q: %w", f.Name, err)
	}
	out, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, fmt.Errorf("unpack %q: %w", f.Name, err)
	}
	// The claimed size may lie; what comes out counts.
	n, err = io.Copy(out, io.LimitReader(in, limit+1))
	if err = errors.Join(err, out.Close()); err != nil {
		return n, &HostileError{f.Name, "is damaged: " + err.Error()}
	}
	if n > limit || uint64(n) != f.UncompressedSize64 {
		return n, &HostileError{f.Name, "has another size than it claims"}
	}
	return n, nil
}
