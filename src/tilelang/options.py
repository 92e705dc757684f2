"""Every switch of a compilation: compile options, and the published pass-config keys.

Takes what a user passes, gives checked values. Environment variables are in `environment.py`.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tilelang.errors import OptionError, nearest
from tilelang.records import record
from tilelang.saved_schedule import BOOLEAN, KINDS, Kind, ScheduleOverrides, integer, read_schedules


class PassConfigKey(str, enum.Enum):
    """The published keys of `pass_configs`, and ours below; each is a string, so its plain text works as well.

    Only the keys that `CompileOptions` names change anything on this version's targets. The others steer decisions of
    the published compiler that do not exist here; they are accepted so that existing programs run.
    """

    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"
    TL_DEVICE_COMPILE_FLAGS = "tl.device_compile_flags"
    TL_DISABLE_FAST_MATH = "tl.disable_fast_math"
    TL_SIMPLIFY = "tl.Simplify"
    TL_SIMPLIFY_TRANSITIVELY_PROVE_INEQUALITIES = "transitively_prove_inequalities"
    TL_SIMPLIFY_CONVERT_BOOLEAN_TO_AND_OF_ORS = "convert_boolean_to_and_of_ors"
    TL_SIMPLIFY_APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES = "apply_constraints_to_boolean_branches"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_PROVE_CONDITIONAL = "propagate_knowns_to_prove_conditional"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_SIMPLIFY_EXPRESSIONS = "propagate_knowns_to_simplify_expressions"
    TL_SIMPLIFY_ENABLE_LET_INLINE = "enable_simplify_let_inline"
    TL_DISABLE_BUFFER_INIT_CHECK = "tl.disable_buffer_init_check"
    TL_DISABLE_DATA_RACE_CHECK = "tl.disable_data_race_check"
    TL_DISABLE_PRELOWER_SEMANTIC_CHECK = "tl.disable_prelower_semantic_check"
    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_ENABLE_AUTO_SCHEDULE = "tl.enable_auto_schedule"
    TL_ENABLE_AUTO_WARP_SPECIALIZATION = "tl.enable_auto_warp_specialization"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"
    TL_ENABLE_PTXAS_VERBOSE_OUTPUT = "tl.enable_ptxas_verbose_output"
    TL_EMIT_LINE_DIRECTIVES = "tl.emit_line_directives"
    TL_CONFIG_INDEX_BITWIDTH = "tl.config_index_bitwidth"
    TL_ENABLE_REDUCER_PLAN_VERBOSE = "tl.enable_reducer_plan_verbose"
    TL_LAYOUT_COST_MODEL = "tl.layout_cost_model"
    TL_REDUCER_FORCE_BASELINE = "tl.reducer_force_baseline"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_SAFE_MEMORY_ACCESS = "tl.disable_safe_memory_legalize"
    TL_DISABLE_VECTORIZE_256 = "tl.disable_vectorize_256"
    TL_ENABLE_FP32X2_REDUCTION = "tl.enable_fp32x2_reduction"
    TL_ENABLE_ASYNC_COPY = "tl.enable_async_copy"
    TL_ENABLE_LOWER_LDGSTG = "tl.enable_lower_ldgstg"
    TL_ENABLE_LOWER_LDGSTG_PREDICATED = "tl.enable_lower_ldgstg_predicated"
    TL_ENABLE_VECTORIZE_PLANNER_VERBOSE = "tl.enable_vectorize_planner_verbose"
    TL_DISABLE_WGMMA = "tl.disable_wgmma"
    TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS = "tl.debug_merge_shared_memory_allocations"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_DISABLE_SHARED_MEMORY_REUSE = "tl.disable_shared_memory_reuse"
    TL_DISABLE_SHUFFLE_ELECT = "tl.disable_shuffle_elect"
    TL_DISABLE_LOOP_UNSWITCHING = "tl.disable_loop_unswitching"
    TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE = "tl.loop_unswitching_allow_non_trivial_else"
    TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS = "tl.if_stmt_binding_inline_replayable_binds"
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_DISABLE_DYNAMIC_TAIL_SPLIT = "tl.disable_dynamic_tail_split"
    TL_DYNAMIC_ALIGNMENT = "tl.dynamic_alignment"
    TL_FORCE_LET_INLINE = "tl.force_let_inline"
    TL_AST_PRINT_ENABLE = "tl.ast_print_enable"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"
    TL_STORAGE_REWRITE_DETECT_INPLACE = "tl.storage_rewrite_detect_inplace"
    TL_DISABLE_OUT_OF_BOUND_WARNING = "tl.disable_out_of_bound_warning"
    TL_ENABLE_DUMP_IR = "tl.enable_dump_ir"
    TL_DUMP_IR_DIR = "tl.dump_ir_path"
    TL_PASS_PROFILE = "tl.pass_profile"
    TL_PASS_PROFILE_THRESHOLD_MS = "tl.pass_profile_threshold_ms"
    TIR_ENABLE_EQUIV_TERMS_IN_CSE = "tir.enable_equiv_terms_in_cse_tir"
    TIR_DISABLE_CSE = "tir.disable_cse_tir"
    TIR_SIMPLIFY = "tir.Simplify"
    TIR_DISABLE_STORAGE_REWRITE = "tir.disable_storage_rewrite"
    TIR_DISABLE_VECTORIZE = "tir.disable_vectorize"
    TIR_USE_ASYNC_COPY = "tir.use_async_copy"
    TIR_ENABLE_DEBUG = "tir.enable_debug"
    TIR_MERGE_STATIC_SMEM = "tir.merge_static_smem"
    TIR_ADD_LOWER_PASS = "tir.add_lower_pass"
    TIR_NOALIAS = "tir.noalias"
    CUDA_KERNELS_OUTPUT_DIR = "cuda.kernels_output_dir"
    # how kernels of producers and consumers are built; without them the compiler chooses
    TL_PERSISTENT = "tl.persistent"
    TL_CONSUMERS = "tl.consumers"
    TL_STAGES = "tl.stages"
    TL_STAGED = "tl.staged"
    TL_IN_FLIGHT = "tl.in_flight"
    TL_PING_PONG = "tl.ping_pong"
    TL_CLUSTER = "tl.cluster"
    TL_SPLIT = "tl.split"
    TL_WORKSPACE_SPLIT = "tl.workspace_split"
    TL_LAST_WAVE = "tl.last_wave"
    # all of it, for every kernel of the program: the text that `kernel.explain()` prints
    TL_SCHEDULE = "tl.schedule"
    # False: NaN operands of minima and maxima are dropped, as in published TileLang; here they win
    TL_NAN_PROPAGATE = "tl.nan_propagate"
    # False: loads have no L2 cache hints
    TL_L2_HINTS = "tl.l2_hints"
    # False: launches begin when all in front of them on the stream have ended
    TL_OVERLAP_LAUNCHES = "tl.overlap_launches"

    def __str__(self) -> str:
        return self.value


@record(slots=True)
class CompileOptions:
    """The options of a compilation, beyond what the kernel computes.

    Attributes:
        pass_configs: What the user set, as (canonical key, value) in the order of keys.
        compile_flags: Appended to the compiler's command line.
        verbose: Print the compiler's command line and log.
    """

    pass_configs: tuple[tuple[str, object], ...] = ()
    compile_flags: tuple[str, ...] = ()
    verbose: bool = False

    @property
    def fast_math(self) -> bool:
        """Whether sums may be reordered and reciprocals used; NaN and infinity keep their meaning."""
        off = self._is_on(PassConfigKey.TL_DISABLE_FAST_MATH)
        return self._is_on(PassConfigKey.TL_ENABLE_FAST_MATH) and not off

    @property
    def checks_subscripts(self) -> bool:
        """Whether the CPU tests indices on chip that are not proven in range."""
        return not self._is_on(PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS)

    @property
    def nan_propagate(self) -> bool:
        """Whether NaN wins in minima and maxima of the whole kernel (`tl.nan_propagate`)."""
        return self._choice(PassConfigKey.TL_NAN_PROPAGATE) is not False

    @property
    def schedule(self) -> ScheduleOverrides:
        """The keys of the schedule that the user sets for each launch.

        Raises:
            OptionError: A number is none, or out of its range.
        """
        without = (PassConfigKey.TL_DISABLE_WARP_SPECIALIZED, PassConfigKey.TL_DISABLE_TMA_LOWER)
        given = {field: self._read(key, KINDS[field]) for field, key in SCHEDULE_KEYS.items()}
        return ScheduleOverrides(specialized=not any(map(self._is_on, without)), **given)

    @property
    def saved_schedules(self) -> tuple[ScheduleOverrides, ...]:
        """The schedules of all launches as another run has printed them (`tl.schedule`); empty without them.

        Raises:
            OptionError: The text is none that `kernel.explain()` prints.
        """
        text = dict(self.pass_configs).get(PassConfigKey.TL_SCHEDULE.value)
        try:
            return () if text is None else read_schedules(text)
        except ValueError as reason:
            raise OptionError(
                f"pass_configs: 'tl.schedule' is not the text of a schedule: {reason}",
                hint="write pass_configs={'tl.schedule': text} with what kernel.explain() prints behind 'schedule:'",
            ) from None

    def launch_schedule(self, number: int) -> ScheduleOverrides:
        """Return the schedule overrides of one launch: keys of their own beat what a saved schedule has.

        Args:
            number: Which of the program's launches it is.
        """
        saved, own = self.saved_schedules, self.schedule
        if number >= len(saved):
            return own
        given = {name: value for name in KINDS if (value := getattr(own, name)) is not None}
        given["specialized"] = own.specialized and saved[number].specialized
        return dataclasses.replace(saved[number], **given)

    @property
    def async_mma(self) -> bool:
        """Whether gemms may be done by asynchronous mma instructions."""
        return not self._is_on(PassConfigKey.TL_DISABLE_WGMMA)

    @property
    def dump_folder(self) -> str | None:
        """Where the program is written after each pass (`tl.enable_dump_ir`, `tl.dump_ir_path`); None: nowhere.

        Raises:
            OptionError: The path is no text.
        """
        if not self._is_on(PassConfigKey.TL_ENABLE_DUMP_IR):
            return None
        folder = dict(self.pass_configs).get(PassConfigKey.TL_DUMP_IR_DIR.value, "./dump_ir")
        if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
            raise _refused(PassConfigKey.TL_DUMP_IR_DIR, folder, "the path of a folder", "'./dump_ir'")
        return str(os.fspath(folder))

    @property
    def layout_formats(self) -> tuple[str, ...]:
        """The forms in which layouts are shown: "txt" prints them, the others are kinds of pictures; none: not at all.

        Raises:
            OptionError: There is no such format.
        """
        if not self._is_on(PassConfigKey.TL_LAYOUT_VISUALIZATION_ENABLE):
            return ()
        key = PassConfigKey.TL_LAYOUT_VISUALIZATION_FORMATS
        given = dict(self.pass_configs).get(key.value) or "txt,svg"
        parts = given.lower().split(",") if isinstance(given, str) else given
        formats = tuple(str(part).strip() for part in parts) if isinstance(parts, list | tuple) else ()
        if "all" in formats:
            return _LAYOUT_FORMATS
        if not formats or not set(formats) <= set(_LAYOUT_FORMATS):
            raise _refused(key, given, f"'all', or some of {', '.join(_LAYOUT_FORMATS)}", "'svg'")
        return formats

    @property
    def register_usage_level(self) -> int | None:
        """How many registers the assembler may use for speed, 0 to 10 (`tl.ptxas_register_usage_level`).

        Raises:
            OptionError: It is no such number.
        """
        found: int | None = self._read(PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL, integer(0, 10))
        return found

    @property
    def l2_hints(self) -> bool:
        """Whether loads have L2 cache hints, by whether their data is reused (`tl.l2_hints`)."""
        return self._choice(PassConfigKey.TL_L2_HINTS) is not False

    @property
    def overlap_launches(self) -> bool:
        """Whether launches begin before those in front of them on the stream have ended (`tl.overlap_launches`)."""
        return self._choice(PassConfigKey.TL_OVERLAP_LAUNCHES) is not False

    def _is_on(self, key: PassConfigKey) -> bool:
        return self._choice(key) is True

    def _choice(self, key: PassConfigKey) -> bool | None:
        """The yes or no under a key, None where there is neither."""
        found: bool | None = self._read(key, BOOLEAN)
        return found

    def _read(self, key: PassConfigKey, kind: Kind) -> Any:
        """The value under a key, None where there is none."""
        value = dict(self.pass_configs).get(key.value)
        try:
            return None if value is None else kind.read(value)
        except ValueError:
            raise _refused(key, value, kind.expected, kind.example) from None

    @property
    def without_effect(self) -> tuple[str, ...]:
        """The keys that steer decisions of published TileLang which are not taken here."""
        return tuple(key for key, _ in self.pass_configs if key not in _EFFECTIVE)

    @property
    def key(self) -> str:
        """A text that differs whenever the compiled result may."""
        return repr((self.pass_configs, self.compile_flags))

    @classmethod
    def from_user(
        cls,
        pass_configs: Mapping[str, object] | None = None,
        compile_flags: str | Sequence[str] | None = None,
        *,
        verbose: bool | None = None,
    ) -> CompileOptions:
        """The options that `pass_configs`, `compile_flags` and `verbose` ask for.

        Raises:
            OptionError: `pass_configs` is no mapping or has an unknown key or a value that means nothing, or flags that
                are neither text nor a list of texts.
        """
        if not isinstance(pass_configs, Mapping | None):
            raise OptionError(
                f"pass_configs: expected a dict, got {pass_configs!r:.60}",
                hint="write pass_configs={'tl.enable_fast_math': True}",
            )
        configs = {_canonical_key(key): _frozen(value) for key, value in (pass_configs or {}).items()}
        device_flags = configs.pop(PassConfigKey.TL_DEVICE_COMPILE_FLAGS.value, None)
        flags = (*_flags(device_flags, "pass_configs"), *_flags(compile_flags, "compile_flags"))
        options = cls(pass_configs=tuple(sorted(configs.items())), compile_flags=flags, verbose=bool(verbose))
        # here the caller's line is known
        _ = options.fast_math, options.schedule, options.saved_schedules, options.async_mma, options.l2_hints
        _ = options.dump_folder, options.layout_formats, options.overlap_launches, options.register_usage_level
        return options


def _refused(key: PassConfigKey, value: object, expected: str, example: str) -> OptionError:
    return OptionError(
        f"pass_configs: {key.value!r} is {value!r:.40}, expected {expected}",
        hint=f"write pass_configs={{{key.value!r}: {example}}}, or leave it out",
    )


SCHEDULE_KEYS = MappingProxyType(
    {
        "persistent": PassConfigKey.TL_PERSISTENT,
        "consumers": PassConfigKey.TL_CONSUMERS,
        "stages": PassConfigKey.TL_STAGES,
        "epilogue_parts": PassConfigKey.TL_STAGED,
        "mma_in_flight": PassConfigKey.TL_IN_FLIGHT,
        "ping_pong": PassConfigKey.TL_PING_PONG,
        "cluster": PassConfigKey.TL_CLUSTER,
        "split_k": PassConfigKey.TL_SPLIT,
        "workspace_split": PassConfigKey.TL_WORKSPACE_SPLIT,
        "last_wave": PassConfigKey.TL_LAST_WAVE,
    }
)
"""The keys that set fields of `ScheduleOverrides`."""
_EFFECTIVE = frozenset(
    key.value
    for key in (
        *SCHEDULE_KEYS.values(),
        PassConfigKey.TL_SCHEDULE,
        PassConfigKey.TL_DISABLE_WARP_SPECIALIZED,
        PassConfigKey.TL_DISABLE_TMA_LOWER,
        PassConfigKey.TL_DISABLE_WGMMA,
        PassConfigKey.TL_L2_HINTS,
        PassConfigKey.TL_OVERLAP_LAUNCHES,
        PassConfigKey.TL_NAN_PROPAGATE,
        PassConfigKey.TL_ENABLE_FAST_MATH,
        PassConfigKey.TL_DISABLE_FAST_MATH,
        PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS,
        PassConfigKey.TL_ENABLE_PTXAS_VERBOSE_OUTPUT,
        PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL,
        PassConfigKey.TL_ENABLE_DUMP_IR,
        PassConfigKey.TL_DUMP_IR_DIR,
        PassConfigKey.TL_LAYOUT_VISUALIZATION_ENABLE,
        PassConfigKey.TL_LAYOUT_VISUALIZATION_FORMATS,
    )
)
_LAYOUT_FORMATS = ("txt", "svg", "pdf", "png")
_KEYS = frozenset(key.value for key in PassConfigKey)


def _frozen(value: object) -> object:
    """A value that can be compared and hashed: JSON and users write lists."""
    return tuple(value) if isinstance(value, list) else value


def _canonical_key(given: object) -> str:
    key = str(given)
    plain = key.replace("tirx.", "tir.", 1) if key.startswith("tirx.") else key  # newer spelling of the same keys
    if plain in _KEYS:
        return plain
    names = {**{k.value: k.value for k in PassConfigKey}, **{k.name: k.value for k in PassConfigKey}}
    near = next((name for name in names if key and name.startswith(key)), "") or nearest(key, names, 0.5)
    raise OptionError(
        f"pass_configs: unknown key {key!r}",
        hint=f"did you mean {names[near]!r}?" if near else "the known keys are those of tilelang.PassConfigKey",
    )


def _flags(value: object, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        import shlex  # noqa: PLC0415  few ask for flags

        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise OptionError(f"{what}: {value!r} is not a list of flags: {error}") from None
    if isinstance(value, list | tuple) and all(isinstance(flag, str) for flag in value):
        return tuple(value)
    raise OptionError(
        f"{what}: expected a text or a list of texts, got {value!r}", hint="write compile_flags=['-O1', '-DNDEBUG']"
    )
