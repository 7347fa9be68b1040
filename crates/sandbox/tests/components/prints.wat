;; A tool that prints what it is given to its standard output and to its standard errors, and gives
;; it back. Of WASI it imports no more than that takes.
(component
  (import "wasi:io/error@0.2.0" (instance $error
    (export "error" (type (sub resource)))))
  (alias export $error "error" (type $error-type))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "output-stream" (type $output-stream (sub resource)))
    (alias outer 1 $error-type (type $error-alias))
    (export "error" (type $error (eq $error-alias)))
    (type $variant (variant
      (case "last-operation-failed" (own $error))
      (case "closed")))
    (export "stream-error" (type $stream-error (eq $variant)))
    (export "[method]output-stream.blocking-write-and-flush" (func
      (param "self" (borrow $output-stream))
      (param "contents" (list u8))
      (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $output-stream))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $output-stream (type $stream))
    (export "output-stream" (type $output-stream (eq $stream)))
    (export "get-stdout" (func (result (own $output-stream))))))
  (import "wasi:cli/stderr@0.2.0" (instance $stderr
    (alias outer 1 $output-stream (type $stream))
    (export "output-stream" (type $output-stream (eq $stream)))
    (export "get-stderr" (func (result (own $output-stream))))))

  (core module $Memory
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096)))
  (core instance $memory (instantiate $Memory))
  (core func $write
    (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
      (memory (core memory $memory "memory"))))
  (core func $get-stdout (canon lower (func $stdout "get-stdout")))
  (core func $get-stderr (canon lower (func $stderr "get-stderr")))

  (core module $Tool
    (import "host" "memory" (memory 1))
    (import "host" "write" (func $write (param i32 i32 i32 i32)))
    (import "host" "get-stdout" (func $get-stdout (result i32)))
    (import "host" "get-stderr" (func $get-stderr (result i32)))
    (data (i32.const 0x180) "{\"type\":\"object\"}")
    ;; A definition without texts but for its schema.
    (data (i32.const 0x18) "\80\01\00\00\11\00\00\00")
    (func (export "describe") (result i32) (i32.const 0x10))
    (func (export "call") (param $at i32) (param $size i32) (result i32)
      (call $write (call $get-stdout) (local.get $at) (local.get $size) (i32.const 0x80))
      (call $write (call $get-stderr) (local.get $at) (local.get $size) (i32.const 0x80))
      (i32.store (i32.const 0x70) (i32.const 0))
      (i32.store (i32.const 0x74) (local.get $at))
      (i32.store (i32.const 0x78) (local.get $size))
      (i32.const 0x70)))
  (core instance $tool (instantiate $Tool (with "host" (instance
    (export "memory" (memory $memory "memory"))
    (export "write" (func $write))
    (export "get-stdout" (func $get-stdout))
    (export "get-stderr" (func $get-stderr))))))

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
