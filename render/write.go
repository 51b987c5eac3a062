package render

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path/filepath"

	// Replaces files atomically: temporary name, fsync, rename.
	"github.com/google/renameio/v2"

	"cvs/templates"
)

// Write prints the deck as one HTML document that needs nothing else but, if it
// was built with [Options.Shared], the [SharedAssets].
func Write(w io.Writer, d *Deck) error { return write(w, d, templates.Deck()) }

func write(w io.Writer, d *Deck, files fs.FS) error {
	t, err := pageTemplate(files)
	if err != nil {
		return err
	}
	a, err := assetsOf(files)
	if err != nil {
		return err
	}
	p := page{Deck: d, Data: d.data, head: a.inPage(true, d.Title)}
	if d.shared {
		p.head = a.beside("../../", true, d.Title)
	}
	buf := bufio.NewWriterSize(w, 1<<16)
	if err := t.ExecuteTemplate(buf, "deck", p); err != nil {
		return fmt.Errorf("printing the deck: %w", err)
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("printing the deck: %w", err)
	}
	return nil
}

func pageTemplate(files fs.FS) (*template.Template, error) {
	t, err := template.New("deck").Funcs(template.FuncMap{"table": tableHTML, "cards": cardsHTML}).ParseFS(files, "*.tmpl")
	if err != nil {
		return nil, fmt.Errorf("parsing the pages' templates: %w", err)
	}
	return t, nil
}

// policy is the page's Content-Security-Policy: nothing may be requested, and
// only exactly these bytes may style or run.
func policy(styles string, scripts ...[]byte) string {
	p := "default-src 'none'; style-src " + styles + "; script-src"
	if len(scripts) == 0 {
		p += " 'none'"
	}
	for _, s := range scripts {
		p += " " + sourceHash(s)
	}
	return p + policyEnd
}

const policyEnd = "; img-src data:; base-uri 'none'; form-action 'none'"

func sourceHash(b []byte) string {
	return "'" + integrity(b) + "'"
}

// integrity is the hash of a file as browsers write it.
func integrity(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// WriteFile prints the deck to path. The file is replaced only by a whole deck:
// whatever was there survives a failure.
func WriteFile(path string, d *Deck) error {
	return WriteTo(path, func(w io.Writer) error { return Write(w, d) })
}

// WriteTo writes one of the other pages to path as [WriteFile] writes the deck.
func WriteTo(path string, write func(io.Writer) error) error {
	// The temporary file stands beside the target, so that the rename never
	// crosses a file system.
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer f.Cleanup() // nothing to tell: the rename itself is reported
	if err := write(f); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
