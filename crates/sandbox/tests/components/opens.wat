;; A tool that opens a file of the first folder it has, or sets its times, and gives what came of it: a
;; zero, or the number of the error and one. Its argument is a letter for what it does, another for how
;; a file is opened (the bits of `open-flags` after `@`), another for what for (those of
;; `descriptor-flags`), and the path.
(component
  (import "wasi:clocks/wall-clock@0.2.0" (instance $clock
    (type $record (record (field "seconds" u64) (field "nanoseconds" u32)))
    (export "datetime" (type (eq $record)))))
  (alias export $clock "datetime" (type $datetime))
  (import "wasi:filesystem/types@0.2.0" (instance $types
    (export "descriptor" (type $descriptor (sub resource)))
    (type $path-flags-type (flags "symlink-follow"))
    (export "path-flags" (type $path-flags (eq $path-flags-type)))
    (type $open-flags-type (flags "create" "directory" "exclusive" "truncate"))
    (export "open-flags" (type $open-flags (eq $open-flags-type)))
    (type $descriptor-flags-type (flags "read" "write" "file-integrity-sync"
      "data-integrity-sync" "requested-write-sync" "mutate-directory"))
    (export "descriptor-flags" (type $descriptor-flags (eq $descriptor-flags-type)))
    (type $error-code-type (enum
      "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist"
      "file-too-large" "illegal-byte-sequence" "in-progress" "interrupted" "invalid" "io"
      "is-directory" "loop" "too-many-links" "message-size" "name-too-long" "no-device"
      "no-entry" "no-lock" "insufficient-memory" "insufficient-space" "not-directory"
      "not-empty" "not-recoverable" "unsupported" "no-tty" "no-such-device" "overflow"
      "not-permitted" "pipe" "read-only" "invalid-seek" "text-file-busy" "cross-device"))
    (export "error-code" (type $error-code (eq $error-code-type)))
    (alias outer 1 $datetime (type $datetime-alias))
    (export "datetime" (type $time (eq $datetime-alias)))
    (type $new-timestamp-type (variant
      (case "no-change") (case "now") (case "timestamp" $time)))
    (export "new-timestamp" (type $new-timestamp (eq $new-timestamp-type)))
    (export "[method]descriptor.open-at" (func
      (param "self" (borrow $descriptor))
      (param "path-flags" $path-flags)
      (param "path" string)
      (param "open-flags" $open-flags)
      (param "flags" $descriptor-flags)
      (result (result (own $descriptor) (error $error-code)))))
    (export "[method]descriptor.set-times-at" (func
      (param "self" (borrow $descriptor))
      (param "path-flags" $path-flags)
      (param "path" string)
      (param "data-access-timestamp" $new-timestamp)
      (param "data-modification-timestamp" $new-timestamp)
      (result (result (error $error-code)))))))
  (alias export $types "descriptor" (type $descriptor))
  (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
    (alias outer 1 $descriptor (type $descriptor-alias))
    (export "descriptor" (type $folder (eq $descriptor-alias)))
    (export "get-directories" (func (result (list (tuple (own $folder) string)))))))

  (core module $Memory
    (memory (export "memory") 1)
    (global $free (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      (local.set $at
        (i32.and
          (i32.add (global.get $free) (i32.sub (local.get $align) (i32.const 1)))
          (i32.sub (i32.const 0) (local.get $align))))
      (global.set $free (i32.add (local.get $at) (local.get $size)))
      (local.get $at)))
  (core instance $memory (instantiate $Memory))
  (core func $open-at
    (canon lower (func $types "[method]descriptor.open-at")
      (memory (core memory $memory "memory"))))
  (core func $set-times-at
    (canon lower (func $types "[method]descriptor.set-times-at")
      (memory (core memory $memory "memory"))))
  (core func $get-directories
    (canon lower (func $preopens "get-directories")
      (memory (core memory $memory "memory"))
      (realloc (core func $memory "realloc"))))

  (core module $Tool
    (import "host" "memory" (memory 1))
    (import "host" "open-at" (func $open-at (param i32 i32 i32 i32 i32 i32 i32)))
    (import "host" "set-times-at" (func $set-times-at
      (param i32 i32 i32 i32 i32 i64 i32 i32 i64 i32 i32)))
    (import "host" "get-directories" (func $get-directories (param i32)))
    (data (i32.const 0x180) "{\"type\":\"object\"}")
    ;; A definition without texts but for its schema.
    (data (i32.const 0x18) "\80\01\00\00\11\00\00\00")
    (func (export "describe") (result i32) (i32.const 0x10))
    (func (export "call") (param $at i32) (param $size i32) (result i32)
      (local $folder i32) (local $path i32) (local $length i32) (local $number i32)
      (call $get-directories (i32.const 0x80))
      ;; The first of a list of handles and names.
      (local.set $folder (i32.load (i32.load (i32.const 0x80))))
      (local.set $path (i32.add (local.get $at) (i32.const 3)))
      (local.set $length (i32.sub (local.get $size) (i32.const 3)))
      ;; Links are followed.
      (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x74)) ;; t
        (then
          (call $set-times-at (local.get $folder) (i32.const 1)
            (local.get $path) (local.get $length)
            (i32.const 1) (i64.const 0) (i32.const 0)
            (i32.const 2) (i64.const 1000) (i32.const 0)
            (i32.const 0x90))
          (local.set $number (i32.load8_u (i32.const 0x91))))
        (else
          (call $open-at (local.get $folder) (i32.const 1)
            (local.get $path) (local.get $length)
            (i32.sub (i32.load8_u (i32.add (local.get $at) (i32.const 1))) (i32.const 0x40))
            (i32.sub (i32.load8_u (i32.add (local.get $at) (i32.const 2))) (i32.const 0x40))
            (i32.const 0x90))
          (local.set $number (i32.load8_u (i32.const 0x94)))))
      (if (i32.load8_u (i32.const 0x90))
        (then (local.set $number (i32.add (local.get $number) (i32.const 1))))
        (else (local.set $number (i32.const 0))))
      (i32.store8 (i32.const 0xa0)
        (i32.add (i32.div_u (local.get $number) (i32.const 10)) (i32.const 0x30)))
      (i32.store8 (i32.const 0xa1)
        (i32.add (i32.rem_u (local.get $number) (i32.const 10)) (i32.const 0x30)))
      (i32.store (i32.const 0x70) (i32.const 0))
      (i32.store (i32.const 0x74) (i32.const 0xa0))
      (i32.store (i32.const 0x78) (i32.const 2))
      (i32.const 0x70)))
  (core instance $tool (instantiate $Tool (with "host" (instance
    (export "memory" (memory $memory "memory"))
    (export "open-at" (func $open-at))
    (export "set-times-at" (func $set-times-at))
    (export "get-directories" (func $get-directories))))))

  (type $record (record
    (field "description" string)
    (field "input-schema" string)
    (field "output-schema" (option string))
    (field "tags" (list string))
    (field "version" string)
    (field "read-only" bool)
    (field "idempotent" bool)))
  (import "definition" (type $definition (eq $record)))
  (func (export "describe") (result $definition)
    (canon lift (core func $tool "describe") (memory (core memory $memory "memory"))))
  (func (export "call") (param "arguments" string) (result (result string (error string)))
    (canon lift (core func $tool "call")
      (memory (core memory $memory "memory"))
      (realloc (core func $memory "realloc")))))
