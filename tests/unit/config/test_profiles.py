"""Profiles on disk: kept, renamed, damaged, and what counts over the settings of single models."""

from pathlib import Path

import pytest

from app.config.model_settings import ModelSettingsFile
from app.config.profiles import REQUEST_PROFILE, ProfileState, ProfileStore
from app.core.errors import BadRequest, Conflict, NotFound
from app.core.models import ModelSettings
from app.core.profiles import MOST_PROFILES, NO_PROFILE, Profile, ProfileModel, SaveProfile

CODING = Profile(
    name="coding", models=[ProfileModel(model="org/a:Q4", is_pinned=True, context=4096)], aliases=["gpt-*=org/a:Q4"]
)


def store(folder: Path) -> ProfileStore:
    return ProfileStore(folder / "profiles.toml", folder / "profile.json")


def test_what_is_saved_is_read_again_with_what_is_active(tmp_path: Path) -> None:
    first = store(tmp_path)
    first.save_profile(SaveProfile(profile=CODING))
    first.set_state(ProfileState(active="coding"))
    again = store(tmp_path)
    assert (again.list_profiles(), again.active_profile(), again.problems) == ([CODING], CODING, [])


def test_a_renamed_profile_stays_active_and_a_removed_one_does_not(tmp_path: Path) -> None:
    profiles = store(tmp_path)
    profiles.save_profile(SaveProfile(profile=CODING))
    profiles.set_state(ProfileState(active="coding", before="coding"))
    work = Profile(name="work", models=CODING.models)
    profiles.save_profile(SaveProfile(profile=work, replaced="coding"))
    assert profiles.active_profile() == work
    assert store(tmp_path).list_profiles() == [work]
    profiles.remove_profile("work")
    assert (profiles.state.active, profiles.state.before) == ("", "")
    with pytest.raises(NotFound):
        profiles.remove_profile("work")


def test_no_profile_is_lost_by_a_name_that_is_taken(tmp_path: Path) -> None:
    profiles = store(tmp_path)
    profiles.save_profile(SaveProfile(profile=CODING))
    profiles.save_profile(SaveProfile(profile=Profile(name="other")))
    with pytest.raises(Conflict):
        profiles.save_profile(SaveProfile(profile=Profile(name="other"), replaced="coding"))
    with pytest.raises(NotFound):
        profiles.save_profile(SaveProfile(profile=Profile(name="new"), replaced="gone"))
    assert [profile.name for profile in profiles.list_profiles()] == ["coding", "other"]


def test_there_is_an_end_of_profiles() -> None:
    profiles = ProfileStore()
    for number in range(MOST_PROFILES):
        profiles.save_profile(SaveProfile(profile=Profile(name=f"p{number}")))
    profiles.save_profile(SaveProfile(profile=Profile(name="q"), replaced="p0"))
    with pytest.raises(BadRequest):
        profiles.save_profile(SaveProfile(profile=Profile(name="one too many")))


def test_a_mistake_costs_its_own_profile_only(tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text('[bad]\nname = "bad"\nmodels = 3\n[good]\nname = "of before"\n')
    (tmp_path / "profile.json").write_text("[")
    profiles = store(tmp_path)
    assert profiles.list_profiles() == [Profile(name="good")], "the table's name counts"
    assert "bad" in profiles.problems[0]
    assert profiles.active_profile() == NO_PROFILE


def test_a_profile_stands_over_a_models_settings_and_changes_none(tmp_path: Path) -> None:
    tuning_file, profiles = ModelSettingsFile(tmp_path / "models.toml"), store(tmp_path)
    tuning_file.profile = profiles.effective_profile
    tuning_file.change_settings("org/a:Q4", ModelSettings(context=512, slots=2))
    tuning_file.change_settings("b", ModelSettings(pinned=True))
    profiles.save_profile(SaveProfile(profile=CODING))
    profiles.set_state(ProfileState(active="coding"))
    assert tuning_file.settings_of("org/a:Q4") == ModelSettings(pinned=True, context=4096, slots=2)
    assert tuning_file.own_settings("org/a:Q4") == ModelSettings(context=512, slots=2)
    assert tuning_file.settings_of("b") == ModelSettings(pinned=True), "what a profile does not name stays pinned"
    assert tuning_file.all_with(CODING)["org/a:Q4"].pinned
    assert "4096" not in (tmp_path / "models.toml").read_text()


def test_a_request_names_its_own_profile_or_none() -> None:
    profiles = ProfileStore()
    profiles.save_profile(SaveProfile(profile=CODING))
    token = REQUEST_PROFILE.set("coding")
    try:
        assert profiles.effective_profile() == CODING
        REQUEST_PROFILE.set("")
        profiles.set_state(ProfileState(active="coding"))
        assert profiles.effective_profile() == NO_PROFILE
        REQUEST_PROFILE.set("gone")
        with pytest.raises(BadRequest) as refusal:
            profiles.effective_profile()
    finally:
        REQUEST_PROFILE.reset(token)
    assert refusal.value.code == "profile_not_found"
    assert profiles.effective_profile() == CODING
